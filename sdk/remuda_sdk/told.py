"""What of the scheduler's log an RM was told: so that nothing is taken twice, and a log that has lost or changed its
past is noticed. Pure."""

from __future__ import annotations

from collections.abc import Callable

from remuda_bus import subjects
from remuda_bus.bus import ChangedPast, Message
from remuda_sdk import limits

Place = tuple[int, int]  # commit, and fact in it
NOWHERE: Place = (0, -1)


class Told:
    """`place`: up to where the RM has worked on what it was told."""

    def __init__(self) -> None:
        self.place = NOWHERE
        self._hashes: dict[int, str] = {}  # of the commits told of last, in order
        self._follows = False  # whether what is told next follows what was told last
        self._skips = 0

    def skips(self) -> None:
        """What is told next need not follow: with a registration, callbacks of a former one may be left out."""
        self._follows = False
        self._skips += 1

    def is_new(self, message: Message) -> bool:
        """Of a callback out of the log. Raises ChangedPast when it tells of another log than those before."""
        place = place_of(message)
        digest, known = message.headers.get(subjects.LOG_HASH, ""), self._hashes.get(place[0])
        if known is not None and digest != known:
            raise ChangedPast(f"commit {place[0]} was told of as {known[:16]}, and now as {digest[:16]}")
        if place <= self.place:
            if known is None and digest and self._hashes and place[0] > next(iter(self._hashes)):
                raise ChangedPast(f"commit {place[0]} is told of, after {self.place[0]} and for the first time")
            return False
        before = message.headers.get(subjects.AFTER)
        # Of one commit, what was told in part may be told again as a whole.
        if self._follows and before is not None and place[0] != self.place[0] and before != _written(self.place):
            told = _written(self.place)
            raise ChangedPast(f"the callback before {_written(place)} is {before}, but what was told last is {told}")
        return True

    def taken(self, message: Message) -> Callable[[], None]:
        """To be called when it has been worked on."""
        place, digest, skips = place_of(message), message.headers.get(subjects.LOG_HASH, ""), self._skips

        def worked_on() -> None:
            self.place = max(self.place, place)
            self._follows = skips == self._skips
            if digest:
                self._hashes[place[0]] = digest
                if len(self._hashes) > limits.REMEMBERED_COMMITS:
                    del self._hashes[next(iter(self._hashes))]

        return worked_on

    def headers(self) -> dict[str, str]:
        """The last commit, for whoever can look whether the log still holds it."""
        digest = self._hashes.get(self.place[0])
        return {subjects.LOG_SEQ: str(self.place[0]), subjects.LOG_HASH: digest} if digest else {}


def is_of_log(message: Message) -> bool:
    """Whether it is a callback out of the log: not a dead letter, not an event."""
    return subjects.LOG_SEQ in message.headers and not message.subject.endswith(".event")


def place_of(message: Message) -> Place:
    return int(message.headers[subjects.LOG_SEQ]), int(message.headers.get(subjects.LOG_FACT, "0"))


def _written(place: Place) -> str:
    return f"{place[0]}.{place[1]}"
