"""The commands of a registration and of a deregistration, and the core's answers to them. Pure."""

from __future__ import annotations

from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.records.rm_record import RmRecord


def register_command(
    request: si.RegisterResourceManagerRequest,
    configuration: config_pb2.Configuration,
    correlation_id: str,
    record: RmRecord,
) -> inbox_pb2.Command:
    """`record`: the RM's record before this registration; of a new RM a fresh one."""
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
    """The number that the core gave the registration; None: the core refused it."""
    return next((fact.rm_registered.registration for fact in decision.facts if fact.HasField("rm_registered")), None)


def refusal_of(decision: log_pb2.Decision) -> str:
    """Why the core refused a registration."""
    for fact in decision.facts:
        match fact.WhichOneof("fact"):
            case "registration_refused":
                return fact.registration_refused.reason
            case "configuration_refused":
                return fact.configuration_refused.reason
    return "the core has not registered the RM and gave no reason"
