"""Callback cursor: the position in the scheduler's log up to which the RM has processed callbacks. Pure.

With it the SDK drops repeated callbacks, and detects a log that has lost or changed commits
(docs/adr/halts-and-faults.md).
"""

from __future__ import annotations

from collections.abc import Callable

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Message
from remuda_sdk.resource_manager import limits
from remuda_sdk.resource_manager.callback_place import NOWHERE, Place, place_of


class CallbackCursor:
    """`place`: the last processed place in the log."""

    def __init__(self) -> None:
        self.place = NOWHERE
        self._hashes: dict[int, str] = {}  # of the latest commits, in order
        self._follows = False  # whether the next callback must follow the last one
        self._gaps = 0
        self._repeated_to = NOWHERE

    def allow_repetition(self) -> None:
        """Allow callbacks before the cursor that were never delivered. The consumer is made again, and delivers also
        those of a former registration that were dropped."""
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
        """Whether a callback is behind the cursor. Raises HistoryChanged when it comes from another log than those
        before."""
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
                if len(self._hashes) > limits.REMEMBERED_COMMITS:
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
