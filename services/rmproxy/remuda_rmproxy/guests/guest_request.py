"""Reads and checks a request of a guest: applications, asks and releases of a cluster of Peloton in an RM's partition.
Pure.

A guest names nothing but its own applications and keys, submits below its queue alone, and reports no allocations: what
it holds is what the core has allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from remuda_bus.bus import Message, Refused
from remuda_proto.bounds import shown
from remuda_proto.guests import PREDICATE_CLASS, PREDICATE_CLASS_TAG, prefix_of, user_of
from remuda_proto.names import CLUSTER, QUEUE, RM_ID
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound.translate import InvalidRequest, completed, refuse
from remuda_rmproxy.records.status_codes import FORBIDDEN, INVALID


@dataclass(frozen=True, slots=True)
class Admission:
    """States that the cluster may be a guest of the RM, in this queue and below it."""

    cluster: str
    rm_id: str
    queue: str


def read_admissions(entries: Sequence[str]) -> tuple[Admission, ...]:
    """Entries `CLUSTER=RM/QUEUE`, such as `default=rm-1/root.peloton`. Raises ValueError."""
    return tuple(map(_read_admission, entries))


def _read_admission(entry: str) -> Admission:
    cluster, _, host = entry.partition("=")
    rm_id, _, queue = host.partition("/")
    levels = queue.split(".")
    is_path = levels[0] == "root" and len(levels) > 1 and all(map(QUEUE.matches, levels)) and queue == queue.lower()
    if not CLUSTER.matches(cluster) or not RM_ID.matches(rm_id) or not is_path:
        raise ValueError(f"{shown(entry)}: expected CLUSTER=RM/QUEUE, such as default=rm-1/root.peloton")
    return Admission(cluster, rm_id, queue)


def command_of(message: Message, admissions: Sequence[Admission], limit: int) -> tuple[str, bytes]:
    """Returns the RM and the command for its inbox, of at most `limit` bytes. Raises Refused with a reason that names
    the field, the value and what was expected.
    """
    _, _, cluster, rm_id, kind = message.subject.split(".")
    admission = next((one for one in admissions if (one.cluster, one.rm_id) == (cluster, rm_id)), None)
    if admission is None:
        reason = f"cluster {shown(cluster)} is no guest of {shown(rm_id)}: rms.guests has no {cluster}={rm_id}/QUEUE"
        raise Refused(reason, FORBIDDEN)
    command = inbox_pb2.Command()
    request = getattr(command, kind)
    try:
        request.ParseFromString(message.payload)
    except DecodeError as error:
        raise Refused(f"not a {request.DESCRIPTOR.name}: {error}", INVALID) from None
    problem = next(_problems(request, admission), None)
    if problem is not None:
        raise Refused(problem, INVALID)
    _complete(request, admission)
    try:
        refuse(command)
        commands = completed(command, rm_id, limit)
    except InvalidRequest as error:
        raise Refused(str(error), INVALID) from None
    if len(commands) != 1:
        raise Refused(f"{kind}: the request is larger than {limit} bytes, expected several", INVALID)
    return rm_id, commands[0]


def _problems(request: Any, admission: Admission) -> Iterator[str]:
    if isinstance(request, si.ApplicationRequest):
        yield from _not_own("new", "applicationID", request.new, admission)
        yield from _not_own("remove", "applicationID", request.remove, admission)
        for new in request.new:
            queue = new.queueName
            if queue != admission.queue and not queue.startswith(f"{admission.queue}."):
                yield f"new.queueName {shown(queue)}: expected {admission.queue} or a queue below it"
            if new.HasField("placeholderAsk"):
                yield "new.placeholderAsk: a guest has no placeholders"
        return
    if request.allocations:
        yield "allocations: a guest reports none, it asks"
    lists = (
        ("asks", request.asks),
        ("releases.allocationsToRelease", request.releases.allocationsToRelease),
        ("releases.allocationAsksToRelease", request.releases.allocationAsksToRelease),
    )
    for name, items in lists:
        yield from _not_own(name, "applicationID", items, admission)
    yield from _not_own("asks", "allocationKey", request.asks, admission)
    if any(ask.placeholder or ask.taskGroupName for ask in request.asks):
        yield "asks: a guest has no placeholders and no task groups"


def _not_own(name: str, field: str, items: Iterable[Any], admission: Admission) -> Iterator[str]:
    prefix = prefix_of(admission.cluster)
    for item in items:
        value = getattr(item, field)
        if not value.startswith(prefix):
            yield f"{name}.{field} {shown(value)}: expected one that begins with {prefix}"


def _complete(request: Any, admission: Admission) -> None:
    """Set the fields that a guest does not choose: the RM, the user, and the predicate class."""
    request.rmID = admission.rm_id
    if isinstance(request, si.ApplicationRequest):
        for new in request.new:
            new.ugi.Clear()
            new.ugi.user = user_of(admission.cluster)
        return
    for ask in request.asks:
        ask.tags[PREDICATE_CLASS_TAG] = PREDICATE_CLASS
