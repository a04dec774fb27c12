"""Requests of RMs into commands of the core: checked, with the scheduler's partition names (000, RM and scheduler
updates; semantics section 1). Pure; knows nothing of streams and of who is registered.

Every element of a request passes here, so what is done per element is one look-up and one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.split import split
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.partitions import ForeignPartition, SchedulerNames
from remuda_rmproxy.session import Rm


class Unacceptable(Exception):
    """Cannot become a command: the reason, naming the field, the value and what was expected. It goes to the dead
    letters."""


def commands_of(message: Message, rm_id: str, limit: int) -> list[bytes]:
    """The serialised commands of an application, allocation or node request, each at most `limit` bytes: one, or
    several parts where the request is larger. Raises Unacceptable."""
    kind = kind_of(message)
    command = inbox_pb2.Command(request_seq=message.seq)
    request = getattr(command, kind)
    _parse(request, message.payload)
    check_sender(request.rmID, rm_id)
    try:
        NORMALISE[kind](request, SchedulerNames(rm_id))
    except ForeignPartition as error:
        raise Unacceptable(f"partition {error}") from None
    payload = command.SerializeToString()
    return [payload] if len(payload) <= limit else list(_parts(message, kind, request, limit))


def configuration_update(message: Message, rm_id: str) -> si.UpdateConfigurationRequest:
    """Raises Unacceptable."""
    request = si.UpdateConfigurationRequest()
    _parse(request, message.payload)
    check_sender(request.rmID, rm_id)
    return request


def configure(
    rm_id: str, request_seq: int, correlation_id: str, configuration: config_pb2.Configuration, limit: int
) -> list[bytes]:
    """The command of a configuration update. Raises Unacceptable when it is larger than `limit` bytes: a configuration
    is taken as a whole, so it cannot be split."""
    command = inbox_pb2.Command(
        request_seq=request_seq,
        correlation_id=correlation_id,
        configure=inbox_pb2.Configure(rm_id=rm_id, configuration=configuration),
    )
    payload = command.SerializeToString()
    if len(payload) > limit:
        raise Unacceptable(f"config: {len(payload)} bytes once it is read, expected at most {limit}")
    return [payload]


def register(
    request: si.RegisterResourceManagerRequest,
    configuration: config_pb2.Configuration,
    correlation_id: str,
    known: Rm | None,
) -> inbox_pb2.Command:
    """`known`: what is on record of the RM."""
    return inbox_pb2.Command(
        correlation_id=correlation_id,
        register=inbox_pb2.Register(
            rm_id=request.rmID,
            version=request.version,
            policy_group=request.policyGroup,
            build_info=request.buildInfo,
            extra_config=request.extraConfig,
            configuration=configuration,
            life=known.life if known else 0,
            registration=known.registration if known else 0,
        ),
    )


def deregister(rm: Rm, correlation_id: str) -> bytes:
    connection = inbox_pb2.RmConnection(
        state="deregistered", reason="the RM has deregistered", registration=rm.registration
    )
    return inbox_pb2.Command(correlation_id=correlation_id, rm_connection=connection).SerializeToString()


def kind_of(message: Message) -> str:
    """application, allocation, node or configuration: the last part of the subject."""
    return message.subject.rpartition(".")[2]


def check_sender(said: str, rm_id: str) -> None:
    """The rmID in a request must be the one of the subject it came on."""
    if said != rm_id:
        raise Unacceptable(f"rmID {said!r}: expected {rm_id!r}, whose subject it was sent on")


def check_rm_id(rm_id: str) -> None:
    try:
        subjects.check_rm_id(rm_id)
    except ValueError as error:
        raise Unacceptable(str(error)) from None


def _parse(request: Any, payload: bytes) -> None:
    try:
        request.MergeFromString(payload)
    except DecodeError as error:
        raise Unacceptable(f"not a {request.DESCRIPTOR.name}: {error}") from None


def _parts(message: Message, kind: str, request: Any, limit: int) -> Iterator[bytes]:
    try:
        parts = split(request, limit - limits.AROUND_BYTES)
    except ValueError as error:
        raise Unacceptable(str(error)) from None
    for number, part in enumerate(parts):
        command = inbox_pb2.Command(request_seq=message.seq, request_part=number, **{kind: part})
        yield command.SerializeToString()


def _named(elements: Iterable[Any], names: SchedulerNames) -> None:
    for element in elements:
        element.partitionName = names[element.partitionName]


def _application(request: si.ApplicationRequest, names: SchedulerNames) -> None:
    _named(request.new, names)
    _named(request.remove, names)


def _allocation(request: si.AllocationRequest, names: SchedulerNames) -> None:
    _named(request.asks, names)
    _named(request.allocations, names)
    if request.HasField("releases"):
        _named(request.releases.allocationsToRelease, names)
        _named(request.releases.allocationAsksToRelease, names)


def _node(request: si.NodeRequest, names: SchedulerNames) -> None:
    """A node names its partition in an attribute; what already runs on it is in the same partition unless it says
    otherwise."""
    for node in request.nodes:
        partition = names[node.attributes.get(NODE_PARTITION, "")]
        node.attributes[NODE_PARTITION] = partition
        for allocation in node.existingAllocations:
            written = allocation.partitionName
            allocation.partitionName = names[written] if written.strip() else partition


NORMALISE: dict[str, Callable[[Any, SchedulerNames], None]] = {
    "application": _application,
    "allocation": _allocation,
    "node": _node,
}
