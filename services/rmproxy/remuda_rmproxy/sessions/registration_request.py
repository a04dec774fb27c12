"""The request of an RM to register: read and checked, the commands that it becomes, and the core's answers. Pure."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_proto.bounds import joined, shown
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si

from ..inbound import request_bounds
from ..records.extra_config import check_extra_config
from ..records.rm_record import RmRecord
from ..records.status_codes import INVALID


def read_registration(message: Message) -> si.RegisterResourceManagerRequest:
    """Reads the request of an RM to register. Raises Refused 400 with a reason that names the field, the value and what
    was expected.
    """
    rm_id = subjects.rm_of(message.subject)
    try:
        request = si.RegisterResourceManagerRequest.FromString(message.payload)
    except DecodeError as error:
        raise Refused(f"not a RegisterResourceManagerRequest: {error}", INVALID) from None
    try:
        subjects.check_rm_id(request.rmID)
        subjects.check_rm_id(rm_id)
    except ValueError as error:
        raise Refused(str(error), INVALID) from None
    if request.rmID != rm_id:
        raise Refused(f"rmID {shown(request.rmID)}: the subject {message.subject} is that of {shown(rm_id)}", INVALID)
    if problems := joined(request_bounds.violations(request)):
        raise Refused(problems, INVALID)
    check_extra_config(request.extraConfig)
    return request


def register_command(
    request: si.RegisterResourceManagerRequest,
    configuration: config_pb2.Configuration,
    correlation_id: str,
    record: RmRecord,
) -> inbox_pb2.Command:
    """Returns the command of a registration. `record`: the RM's record before this registration; of a new RM a fresh
    one.
    """
    return inbox_pb2.Command(
        correlation_id=correlation_id,
        register=inbox_pb2.Register(
            rm_id=request.rmID,
            version=request.version,
            policy_group=request.policyGroup,
            build_info=request.buildInfo,
            extra_config=request.extraConfig,
            configuration=configuration,
            life=record.life,
            registration=record.registration,
        ),
    )


def deregister_command(registration: int, correlation_id: str) -> inbox_pb2.Command:
    connection = inbox_pb2.RmConnection(
        state="deregistered", reason="the RM has deregistered", registration=registration
    )
    return inbox_pb2.Command(correlation_id=correlation_id, rm_connection=connection)


def registration_of(decision: log_pb2.Decision) -> int | None:
    """Returns the number that the core gave the registration; None: the core refused it."""
    return next((fact.rm_registered.registration for fact in decision.facts if fact.HasField("rm_registered")), None)


def refusal_of(decision: log_pb2.Decision) -> str:
    """Returns why the core refused a registration."""
    for fact in decision.facts:
        match fact.WhichOneof("fact"):
            case "registration_refused":
                return fact.registration_refused.reason
            case "configuration_refused":
                return fact.configuration_refused.reason
    return "the core has not registered the RM and gave no reason"
