"""The protocol of a state machine whose commits are in a log, as replication knows it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from remuda_bus.bus import Bus, Message
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Position
from remuda_replication.metrics import ReplicationMetrics

# A leader with work for longer lets other RMs of the process work, so that large messages of one delay them no longer.
TURN_S = 0.010
# A commit with so many facts, or that has taken so long, takes no further message: the RM receives nothing of a commit
# before all of it is durable.
FACTS_PER_COMMIT = 5_000
COMMIT_S = 0.050


class Deciding(Protocol):
    """Decides commits. While `commit` runs nothing else may read the state, which holds part of a commit."""

    more_to_schedule: bool  # there is work although no message has arrived
    message_seq: int  # stream sequence of the message in work; 0: none
    facts_by_kind: Counter[type[Any]]  # of the last commit

    def idle_s(self) -> float | None:
        """The time for which there is nothing to do unless a message arrives, in s; None: no limit."""
        ...

    async def commit(self, messages: deque[Message], epoch: int) -> tuple[log_pb2.Commit, dict[str, str]]:
        """Decide one commit: first as many of `messages`, from the left, as fit, then work that is due. Handled
        messages are removed. Returns the commit and the headers with its trace."""
        ...


class Machine(Protocol):
    """A state that the facts of its log make up. `log_id`: the name of the log (`subjects.log`). `inbox_seq` and
    `now_ms`: the fields of the last commit, or of the commit in work. `commit_class`: the class of commits,
    `log_pb2.Commit` or a class with the same envelope and facts of its own."""

    @property
    def log_id(self) -> str: ...

    @property
    def commit_class(self) -> type[log_pb2.Commit]: ...

    @property
    def metrics(self) -> ReplicationMetrics: ...

    @property
    def inbox_seq(self) -> int: ...

    @property
    def now_ms(self) -> int: ...

    def size(self) -> int:
        """The number of objects that a snapshot holds."""
        ...

    def begin(self) -> None:
        """Begin with an empty state."""
        ...

    def follow_only(self) -> None:
        """Drop what only decisions need."""
        ...

    def apply(self, commit: log_pb2.Commit) -> int:
        """Apply a commit of the log. Returns the number of its facts."""
        ...

    def save(self, position: Position) -> Iterator[bytes]:
        """Yield the pieces of a snapshot. `position`: the commit at which the state is."""
        ...

    async def restore(self, payload: bytes) -> Position:
        """Continue from a snapshot. Returns its position. Raises any Exception when it is unreadable; the state is then
        as before."""
        ...

    def digest(self) -> bytes:
        """SHA-256 of the state, hexadecimal."""
        ...

    async def discard(self) -> None:
        """Free the memory of the state, in slices."""
        ...

    def deciding(self, clock_ms: Callable[[], int]) -> Deciding:
        """Begin to decide. `clock_ms` returns the time in ms since 1970, which must never go back."""
        ...

    async def check_past(self, bus: Bus) -> None:
        """Check that streams which were derived from the log agree with it. Raises HistoryChanged."""
        ...

    async def published_up_to(self, bus: Bus, newest: int) -> int:
        """The stream sequence of the commit up to which everything that is derived from the log is published, so that
        it may be trimmed; `newest` if nothing is derived."""
        ...


class TimeSlice:
    """The time for which one state machine may keep its process busy. It pauses after TURN_S, so that the process can
    renew its lease and work for other machines."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def run(self, steps: Iterable[None]) -> None:
        """Take the steps, which may be tens of thousands, and pause whenever the slice is used up."""
        for _ in steps:
            if time.perf_counter() - self._began >= TURN_S:
                await self.pause()

    async def pause_when_over(self) -> None:
        """Pause if the slice is used up."""
        if time.perf_counter() - self._began >= TURN_S:
            await self.pause()

    async def pause(self) -> None:
        """Let other tasks run, and begin a new slice."""
        await asyncio.sleep(0)
        self._began = time.perf_counter()
