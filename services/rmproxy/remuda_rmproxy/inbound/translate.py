"""Translates requests of RMs into commands of the core: checks them and sets the scheduler's names of partitions (000,
RM and scheduler updates; semantics section 1). Pure.

Hot path: each element of a request costs one look-up and one assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.streams.split import split
from remuda_proto import bounds
from remuda_proto.bounds import joined, shown
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.guests import PREFIX as GUEST_PREFIX
from remuda_proto.guests import is_guest
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.groups.resolution import Resolution
from remuda_rmproxy.inbound import request_bounds
from remuda_rmproxy.records.partitions import ForeignPartition, SchedulerNames

NO_GROUPS: Final[Mapping[str, Resolution]] = {}
UNRESOLVED: Final = Resolution()  # without a directory


class InvalidRequest(Exception):
    """The request cannot become a command and becomes a dead letter. The reason names the field, the value and what was
    expected."""


def commands_of(message: Message, rm_id: str, limit: int, groups: Mapping[str, Resolution] = NO_GROUPS) -> list[bytes]:
    """Returns the serialised commands of an application, allocation or node request. The parameters as of `completed`.
    Raises InvalidRequest."""
    return completed(read_request(message, rm_id), rm_id, limit, groups)


def read_request(message: Message, rm_id: str) -> inbox_pb2.Command:
    """Returns a command with the request as the RM wrote it, without what is above a bound. Raises InvalidRequest."""
    command = inbox_pb2.Command(request_seq=message.seq)
    request = getattr(command, kind_of(message))
    _parse(request, message.payload)
    check_sender(request.rmID, rm_id)
    if GUEST_PREFIX.encode() in message.payload:  # in hardly any, and looking at each item is slow
        _check_no_guest(request)
    refuse(command)
    return command


def refuse(command: inbox_pb2.Command) -> None:
    """Reduce the items of the request that are above their bounds to their names, and add to the command why. Raises
    InvalidRequest for too many items."""
    for name, items in item_lists(_request_of(command)):
        if problem := bounds.too_many(name, len(items), bounds.ITEMS):
            raise InvalidRequest(problem)
        command.refused.extend(request_bounds.refused_items(name, items))


def users_without_groups(command: inbox_pb2.Command) -> list[str]:
    """Returns the users whose groups the request does not name; of an application request, as no other has any."""
    return list(dict.fromkeys(new.ugi.user for new in command.application.new if _lacks_groups(new)))


def completed(
    command: inbox_pb2.Command, rm_id: str, limit: int, groups: Mapping[str, Resolution] = NO_GROUPS
) -> list[bytes]:
    """Returns the serialised commands of a command that has been read, with the scheduler's names of partitions.

    A request of more than `limit` bytes is split into several commands. `groups`: the groups of users that have none in
    the request. Changes the command. Raises InvalidRequest.
    """
    kind, request = command.WhichOneof("command") or "", _request_of(command)
    try:
        NORMALISE_BY_KIND[kind](request, SchedulerNames(rm_id))
    except ForeignPartition as error:
        raise InvalidRequest(f"partition {error}") from None
    reserved = _reserved(request, limit) if kind == "application" else 0
    if not reserved:
        payload = command.SerializeToString()
        return [payload] if len(payload) <= limit else [part.SerializeToString() for part in _parts(command, limit)]
    if command.ByteSize() + reserved <= limit:
        return [_with_groups(command, limit, groups)]
    return [_with_groups(part, limit, groups) for part in _parts(command, limit)]


def _lacks_groups(new: si.AddApplicationRequest) -> bool:
    return bool(new.ugi.user) and not new.ugi.groups


def _room_for_groups(limit: int) -> int:
    """Bytes that a command has for the groups of one application."""
    return min(bounds.GROUPS.total, limit // limits.GROUPS_SHARE_OF_MESSAGE)


def _reserved(request: si.ApplicationRequest, limit: int) -> int:
    """Bytes that the groups of all users without any may add to the request."""
    return sum(map(_lacks_groups, request.new)) * _room_for_groups(limit)


def _parts(command: inbox_pb2.Command, limit: int) -> Iterator[inbox_pb2.Command]:
    """The request is split as if every user without groups had as many as there may be: what a part holds must not
    depend on what a directory answers, since another process may forward the request again."""
    kind, room = command.WhichOneof("command") or "", _room_for_groups(limit)
    refused: dict[str, dict[int, list[inbox_pb2.RefusedItem]]] = {}
    for one in command.refused:
        refused.setdefault(one.list, {}).setdefault(one.position, []).append(one)

    def reserve(element: Any, name: str, position: int) -> int:
        reasons = refused.get(name, {}).get(position, ())
        size = sum(one.ByteSize() + limits.AROUND_REASON_BYTES for one in reasons)
        return size + room if type(element) is si.AddApplicationRequest and _lacks_groups(element) else size

    try:
        parts = split(_request_of(command), limit - limits.COMMAND_OVERHEAD_BYTES, reserve)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    begins: Counter[str] = Counter()
    for number, request in enumerate(parts):
        part = inbox_pb2.Command(request_seq=command.request_seq, request_part=number, **{kind: request})
        for name, items in item_lists(request):
            for position in range(begins[name], begins[name] + len(items)) if name in refused else ():
                for one in refused[name].get(position, ()):
                    one.position = position - begins[name]
                    part.refused.append(one)
            begins[name] += len(items)
        yield part


def _with_groups(command: inbox_pb2.Command, limit: int, groups: Mapping[str, Resolution]) -> bytes:
    """The serialised command, with the groups of users, or why they are not known. Without a directory, nothing is
    added."""
    for new in filter(_lacks_groups, command.application.new) if groups else ():
        found = groups.get(new.ugi.user, UNRESOLVED)
        size = sum(bounds.size_of(group) + limits.AROUND_GROUP_BYTES for group in found.groups)
        if found.problem or size > _room_for_groups(limit):
            room = _room_for_groups(limit)
            reason = found.problem or f"groups of {size} bytes, more than the {room} that a message has for them"
            command.groups_unresolved[new.ugi.user] = reason
        else:
            new.ugi.groups.extend(found.groups)
    return command.SerializeToString()


def configuration_update(message: Message, rm_id: str) -> si.UpdateConfigurationRequest:
    """Reads an update of the configuration. Raises InvalidRequest."""
    request = si.UpdateConfigurationRequest()
    _parse(request, message.payload)
    check_sender(request.rmID, rm_id)
    if problems := joined(request_bounds.violations(request)):
        raise InvalidRequest(problems)
    return request


def configure(
    rm_id: str, request_seq: int, correlation_id: str, configuration: config_pb2.Configuration, limit: int
) -> list[bytes]:
    """Returns the serialised command of a configuration update. It cannot be split, because a configuration is applied
    as a whole. Raises InvalidRequest when it is larger than `limit` bytes.
    """
    command = inbox_pb2.Command(
        request_seq=request_seq,
        correlation_id=correlation_id,
        configure=inbox_pb2.Configure(rm_id=rm_id, configuration=configuration),
    )
    payload = command.SerializeToString()
    if len(payload) > limit:
        raise InvalidRequest(f"config: {len(payload)} bytes once it is read, expected at most {limit}")
    return [payload]


def kind_of(message: Message) -> str:
    """Returns the last token of the subject: application, allocation, node or configuration."""
    return message.subject.rpartition(".")[2]


def check_sender(sent_rm_id: str, rm_id: str) -> None:
    """Raises InvalidRequest unless the rmID in a request equals the rmID of its subject."""
    if sent_rm_id != rm_id:
        raise InvalidRequest(f"rmID {shown(sent_rm_id)}: expected {shown(rm_id)}, whose subject it was sent on")


def _check_no_guest(request: Any) -> None:
    """IDs and keys of guests are not the RM's. Raises InvalidRequest."""
    for name, items in item_lists(request):
        if name == "nodes":
            for node in items:
                _check_ids("nodes.existingAllocations", node.existingAllocations)
        else:
            _check_ids(name, items)


def _check_ids(name: str, items: Any) -> None:
    for item in items:
        if is_guest(item.applicationID):
            reason = f"{name}.applicationID {shown(item.applicationID)}: IDs that begin with {GUEST_PREFIX} are guests'"
            raise InvalidRequest(reason)
        key = getattr(item, "allocationKey", "")
        if is_guest(key):
            reason = f"{name}.allocationKey {shown(key)}: keys that begin with {GUEST_PREFIX} are guests'"
            raise InvalidRequest(reason)


def _request_of(command: inbox_pb2.Command) -> Any:
    kind = command.WhichOneof("command")
    assert kind is not None, "the command has a request, which names its RM"
    return getattr(command, kind)


def item_lists(request: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name and the items of each list in an application, allocation or node request."""
    for field, value in request.ListFields():
        if field.name == "releases":
            yield from item_lists(value)
        elif field.message_type is not None:
            yield field.name, value


def check_rm_id(rm_id: str) -> None:
    try:
        subjects.check_rm_id(rm_id)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _parse(request: Any, payload: bytes) -> None:
    try:
        request.MergeFromString(payload)
    except DecodeError as error:
        raise InvalidRequest(f"not a {request.DESCRIPTOR.name}: {error}") from None


def _set_partitions(elements: Iterable[Any], names: SchedulerNames) -> None:
    for element in elements:
        element.partitionName = names[element.partitionName]


def _application(request: si.ApplicationRequest, names: SchedulerNames) -> None:
    _set_partitions(request.new, names)
    _set_partitions(request.remove, names)


def _allocation(request: si.AllocationRequest, names: SchedulerNames) -> None:
    _set_partitions(request.asks, names)
    _set_partitions(request.allocations, names)
    if request.HasField("releases"):
        _set_partitions(request.releases.allocationsToRelease, names)
        _set_partitions(request.releases.allocationAsksToRelease, names)


def _node(request: si.NodeRequest, names: SchedulerNames) -> None:
    """An attribute of a node names its partition. An existing allocation without a partition is in that of its
    node."""
    for node in request.nodes:
        partition = names[node.attributes.get(NODE_PARTITION, "")]
        node.attributes[NODE_PARTITION] = partition
        for allocation in node.existingAllocations:
            written = allocation.partitionName
            allocation.partitionName = names[written] if written.strip() else partition


NORMALISE_BY_KIND: dict[str, Callable[[Any, SchedulerNames], None]] = {
    "application": _application,
    "allocation": _allocation,
    "node": _node,
}
