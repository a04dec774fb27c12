"""What an RM says and hears, without any IO: requests cut to the size that travels, callbacks read, each taken once,
releases the scheduler asks for confirmed once. Section "RM and scheduler updates" of the specification (000)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.split import split
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import limits
from remuda_sdk.build import release_of
from remuda_sdk.told import Told, is_of_log

ASKED_BY_SCHEDULER = frozenset((si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER, si.PLACEHOLDER_REPLACED))

T = TypeVar("T")
Release = si.AllocationRelease | si.AllocationAskRelease
Releasable = Release | si.Allocation
Request = si.ApplicationRequest | si.AllocationRequest | si.NodeRequest | si.UpdateConfigurationRequest


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that could not be handled. `request_seq`: what the call that published it has returned."""

    reason: str
    request_seq: int


Callback = (
    si.AllocationResponse
    | si.ApplicationResponse
    | si.NodeResponse
    | si.UpdateContainerSchedulingStateRequest
    | si.EventRecord
    | DeadLetter
)


class Superseded(Exception):
    """Another instance of this RM has registered since: it is the RM now, this one is told nothing any more and what it
    asks is not handled."""


class ReportWanted(Exception):
    """The scheduler has lost what it knew of this RM and wants it to register and report, which nobody is there to do:
    see `ResourceManager.on_report_wanted`."""


class RegistrationFailed(Exception):
    """The scheduler did not take the RM. `code`: 400 not understood, 422 configuration or core say no, 503 an
    outage."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})")
        self.reason = reason
        self.code = code


class Session:
    """Of one RM, for as long as its process lives."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = subjects.check_rm_id(rm_id)
        self.told = Told()
        self._seen_seq = {subjects.CALLBACKS.name: 0, subjects.EVENTS.name: 0}
        self._confirmed: dict[str, None] = {}  # an ordered set

    def is_new(self, message: Message) -> bool:
        """Whether this callback or event has not been `taken` yet: the bus may deliver one twice. Raises
        ChangedPast."""
        if is_of_log(message):
            return self.told.is_new(message)
        return not message.seq or message.seq > self._seen_seq[stream_of(message)]

    def taken(self, message: Message) -> Callable[[], None]:
        """To be called when it has been worked on: then it is not new again."""
        if is_of_log(message):
            return self.told.taken(message)
        seen, stream = self._seen_seq, stream_of(message)
        return lambda: seen.update({stream: max(seen[stream], message.seq)})

    def begin_anew(self) -> None:
        """The scheduler has given up what it knew of this RM, and its streams may have lost their ends."""
        self.told = Told()
        self._seen_seq = dict.fromkeys(self._seen_seq, 0)

    def confirmations(self, callback: Callback) -> list[si.AllocationRelease]:
        """The releases in it that the scheduler asks for and that were not confirmed before: to be sent back as they
        are."""
        if not isinstance(callback, si.AllocationResponse):
            return []
        return [
            release
            for release in callback.released
            if release.terminationType in ASKED_BY_SCHEDULER and release.UUID not in self._confirmed
        ]

    def confirmed(self, releases: Iterable[si.AllocationRelease]) -> None:
        for release in releases:
            if release.terminationType in ASKED_BY_SCHEDULER:
                self._confirmed[release.UUID] = None
        while len(self._confirmed) > limits.REMEMBERED_CONFIRMATIONS:
            del self._confirmed[next(iter(self._confirmed))]

    def nodes(self, nodes: Iterable[si.NodeInfo], limit: int) -> Iterator[bytes]:
        for some in chunks(nodes):
            yield from sized(si.NodeRequest(rmID=self.rm_id, nodes=some), limit)

    def submissions(self, applications: Iterable[si.AddApplicationRequest], limit: int) -> Iterator[bytes]:
        for some in chunks(applications):
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, new=some), limit)

    def removals(self, application_ids: Iterable[str], partition: str, limit: int) -> Iterator[bytes]:
        for some in chunks(application_ids):
            remove = [si.RemoveApplicationRequest(applicationID=one, partitionName=partition) for one in some]
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, remove=remove), limit)

    def asks(self, asks: Iterable[si.AllocationAsk], limit: int) -> Iterator[bytes]:
        for some in chunks(asks):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, asks=some), limit)

    def allocations(self, allocations: Iterable[si.Allocation], limit: int) -> Iterator[bytes]:
        for some in chunks(allocations):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, allocations=some), limit)

    def releases(self, releases: Iterable[Releasable], limit: int) -> Iterator[bytes]:
        """A release without a termination type is the RM's. Raises TypeError for anything that cannot be released."""
        for some in chunks(releases):
            request = si.AllocationReleasesRequest()
            for one in some:
                _add_release(request, one)
            yield from sized(si.AllocationRequest(rmID=self.rm_id, releases=request), limit)


def stream_of(message: Message) -> str:
    return subjects.EVENTS.name if message.subject.endswith(".event") else subjects.CALLBACKS.name


def read(message: Message) -> Callback:
    """Raises ValueError for a kind of callback this version does not know."""
    kind = message.subject.rpartition(".")[2]
    if kind == "dead_letter":
        record = si.EventRecord.FromString(message.payload)
        return DeadLetter(record.message, int(record.referenceID or 0))
    made = CALLBACK_TYPES.get(kind)
    if made is None:
        raise ValueError(f"{message.subject}: expected a callback of one of {', '.join(CALLBACK_TYPES)}, dead_letter")
    return made.FromString(message.payload)


CALLBACK_TYPES: dict[
    str,
    type[si.AllocationResponse]
    | type[si.ApplicationResponse]
    | type[si.NodeResponse]
    | type[si.UpdateContainerSchedulingStateRequest]
    | type[si.EventRecord],
] = {
    "allocation": si.AllocationResponse,
    "application": si.ApplicationResponse,
    "node": si.NodeResponse,
    "container": si.UpdateContainerSchedulingStateRequest,
    "event": si.EventRecord,
}


def chunks(items: Iterable[T]) -> Iterator[Sequence[T]]:
    left = iter(items)
    while some := list(islice(left, limits.MAX_ITEMS)):
        yield some


def sized(request: Request, limit: int) -> Iterator[bytes]:
    """The request, in as many messages as it takes. Raises ValueError when one element alone is too large."""
    payload = request.SerializeToString()
    if len(payload) <= limit:
        yield payload
        return
    for part in split(request, limit):
        yield part.SerializeToString()


def _add_release(request: si.AllocationReleasesRequest, one: Releasable) -> None:
    if isinstance(one, si.Allocation):
        request.allocationsToRelease.append(release_of(one))
        return
    made: Release
    if isinstance(one, si.AllocationRelease):
        made = request.allocationsToRelease.add()
    elif isinstance(one, si.AllocationAskRelease):
        made = request.allocationAsksToRelease.add()
    else:
        raise TypeError(f"{one!r}: expected an Allocation, AllocationRelease or AllocationAskRelease")
    made.MergeFrom(one)  # type: ignore[arg-type]
    if made.terminationType == si.UNKNOWN_TERMINATION_TYPE:
        made.terminationType = si.STOPPED_BY_RM
