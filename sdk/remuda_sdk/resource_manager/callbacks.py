"""Callbacks and events of the scheduler (000, RM and scheduler updates), and which of them an RM has processed. Pure.

The callback cursor is the position in the scheduler's log up to which the RM has processed callbacks. With it the SDK
drops repeated callbacks, and detects a log that has lost or changed commits (docs/adr/halts-and-faults.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Message
from remuda_bus.untrusted import number_in
from remuda_proto.si.v1 import si_pb2 as si

# Confirmed releases, so that a repeated callback is not confirmed twice: far more than are unconfirmed at a time.
REMEMBERED_CONFIRMATIONS = 100_000
# Commits whose hash the callback cursor keeps for comparison. Repeated callbacks are recent ones.
REMEMBERED_COMMITS = 1_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that the scheduler could not handle. `request_seq`: the stream sequence that the publishing call
    returned."""

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


def stream_of(message: Message) -> str:
    """The name of the stream that holds a callback or an event."""
    return subjects.EVENTS.name if message.subject.endswith(".event") else subjects.CALLBACKS.name


def parse_callback(message: Message) -> Callback:
    """Parse a callback. Raises ValueError for a kind that this version does not know."""
    kind = message.subject.rpartition(".")[2]
    if kind == "dead_letter":
        record = si.EventRecord.FromString(message.payload)
        return DeadLetter(record.message, int(record.referenceID or 0))
    made = CALLBACK_TYPES.get(kind)
    if made is None:
        raise ValueError(f"{message.subject}: expected a callback of one of {', '.join(CALLBACK_TYPES)}, dead_letter")
    return made.FromString(message.payload)


ASKED_BY_SCHEDULER = frozenset((si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER, si.PLACEHOLDER_REPLACED))


class Session:
    """The session of one RM, for the life of its process. `cursor`: the position in the scheduler's log up to which the
    RM has processed callbacks."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = subjects.check_rm_id(rm_id)
        self.cursor = CallbackCursor()
        # Of the newest message of each stream that does not come from the log: its sequence, and when it was stored.
        self._seen = {subjects.CALLBACKS.name: (0, 0), subjects.EVENTS.name: (0, 0)}
        self._confirmed: dict[str, None] = {}  # an ordered set

    def is_new(self, message: Message) -> bool:
        """Whether the RM has not processed this callback or event yet. The bus may deliver a message twice. Raises
        HistoryChanged."""
        if is_of_log(message):
            return self.cursor.is_new(message)
        seen_seq, seen_ns = self._seen[stream_of(message)]
        # A stream that was deleted and declared again counts from 1 again.
        return not message.seq or message.seq > seen_seq or message.stored_ns > seen_ns

    def taken(self, message: Message) -> Callable[[], None]:
        """A function that records the message as processed. Call it after the RM has processed the message."""
        if is_of_log(message):
            return self.cursor.taken(message)
        seen, stream = self._seen, stream_of(message)
        return lambda: seen.update({stream: (message.seq, message.stored_ns)})

    def begin_anew(self) -> None:
        """Forget all positions: the scheduler has lost the state of this RM, and its streams may start anew."""
        self.cursor = CallbackCursor()
        self._seen = dict.fromkeys(self._seen, (0, 0))

    def confirmations(self, callback: Callback) -> list[si.AllocationRelease]:
        """The releases in a callback that the scheduler requests and that were not confirmed before. They are sent back
        unchanged."""
        if not isinstance(callback, si.AllocationResponse):
            return []
        return [
            release
            for release in callback.released
            if release.terminationType in ASKED_BY_SCHEDULER and release.UUID not in self._confirmed
        ]

    def record_confirmed(self, releases: Iterable[si.AllocationRelease]) -> None:
        """Record releases as confirmed."""
        for release in releases:
            if release.terminationType in ASKED_BY_SCHEDULER:
                self._confirmed[release.UUID] = None
        while len(self._confirmed) > REMEMBERED_CONFIRMATIONS:
            del self._confirmed[next(iter(self._confirmed))]


class CallbackCursor:
    """The position up to which the RM has processed callbacks. `place`: the last processed place in the log."""

    def __init__(self) -> None:
        self.place = NOWHERE
        self._hashes: dict[int, str] = {}  # of the latest commits, in order
        self._follows = False  # whether the next callback must follow the last one
        self._gaps = 0
        self._repeated_to = NOWHERE

    def allow_repetition(self) -> None:
        """Allow callbacks before the cursor that were never delivered: a consumer that is made again also delivers
        callbacks of a former registration, which the SDK had dropped."""
        self._repeated_to = self.place

    def allow_gap(self) -> None:
        """Allow a gap before the next callback. After a registration, callbacks of a former one may be missing."""
        self._follows = False
        self._gaps += 1

    def skip_to(self, log_seq: int) -> None:
        """Count all callbacks of commits up to `log_seq` as processed."""
        self.place = max(self.place, (log_seq + 1, NOWHERE[1]))
        self.allow_gap()

    def is_new(self, message: Message) -> bool:
        """Whether a callback is behind the cursor. Raises HistoryChanged when the callback comes from another log than
        the callbacks before."""
        place = place_of(message)
        digest, known = message.headers.get(subjects.LOG_HASH, ""), self._hashes.get(place[0])
        if known is not None and digest != known:
            raise HistoryChanged(
                f"commit {place[0]} had the hash {known[:16]} in an earlier callback, and has {digest[:16]} now"
            )
        if place <= self.place:
            is_late = known is None and place > self._repeated_to
            if is_late and digest and self._hashes and place[0] > next(iter(self._hashes)):
                raise HistoryChanged(f"a callback of commit {place[0]} comes first after one of commit {self.place[0]}")
            return False
        before = message.headers.get(subjects.AFTER)
        # A callback may repeat a part of its commit that was processed before.
        if self._follows and before is not None and place[0] != self.place[0] and before != _written(self.place):
            last = _written(self.place)
            raise HistoryChanged(
                f"the callback before {_written(place)} is {before}, but the last processed one is {last}"
            )
        return True

    def taken(self, message: Message) -> Callable[[], None]:
        """A function that advances the cursor to this callback. Call it after the RM has processed the callback."""
        place, digest, gaps = place_of(message), message.headers.get(subjects.LOG_HASH, ""), self._gaps

        def advance() -> None:
            self.place = max(self.place, place)
            self._follows = gaps == self._gaps
            if digest:
                self._hashes[place[0]] = digest
                if len(self._hashes) > REMEMBERED_COMMITS:
                    del self._hashes[next(iter(self._hashes))]

        return advance

    def headers(self) -> dict[str, str]:
        """The headers that name the commit at the cursor. rmproxy checks that the log still holds it."""
        digest = self._hashes.get(self.place[0])
        return {subjects.LOG_SEQ: str(self.place[0]), subjects.LOG_HASH: digest} if digest else {}


def is_of_log(message: Message) -> bool:
    """Whether a message is a callback that is derived from the log: no dead letter, no event."""
    return subjects.LOG_SEQ in message.headers and not message.subject.endswith(".event")


def _written(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


Place = tuple[int, int]  # stream sequence of the commit, index of the fact in it
NOWHERE: Place = (0, -1)


def place_of(message: Message) -> Place:
    """The place in the log that a callback is derived from. Raises Malformed when the headers are not numbers."""
    return number_in(message.headers, subjects.LOG_SEQ, 0), number_in(message.headers, subjects.LOG_FACT, 0)
