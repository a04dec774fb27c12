"""The state of an RM's session: which callbacks it has processed, and which releases it has confirmed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import limits
from remuda_sdk.resource_manager.callback_cursor import CallbackCursor, is_of_log
from remuda_sdk.resource_manager.callbacks import Callback, stream_of

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
        """Whether the RM has not processed this callback or event yet. The bus may deliver one twice. Raises
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
        while len(self._confirmed) > limits.REMEMBERED_CONFIRMATIONS:
            del self._confirmed[next(iter(self._confirmed))]
