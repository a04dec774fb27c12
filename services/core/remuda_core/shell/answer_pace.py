"""How many questions a process answers, and how much of its time that takes.

Answers take time from the RMs that the process leads or follows, and a follower may share a processor with a leader. So
answers have a share of the time. A few queries beyond that wait; others are refused at once, so that their senders do
not wait for a time-out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from remuda_bus.bus import Refused
from remuda_bus.queries.status_codes import UNAVAILABLE

from .. import limits


class AnswerPace:
    """`clock` and `worked`, the processor time of this thread, in seconds. A machine that is busy with something else
    makes answers late, but it does not make them take more of the share."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._worked = worked
        self._slots = asyncio.Semaphore(limits.ANSWERED_AT_ONCE)
        self._waiting = 0
        self._due = clock()  # when all that was spent is within the share

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a question may be answered. Raises Refused: too many wait."""
        if self._waiting >= limits.QUESTIONS_WAITING:
            raise Refused(f"{self._waiting} questions wait for this core, try again", UNAVAILABLE)
        self._waiting += 1
        try:
            await self._slots.acquire()
            try:
                while (ahead_s := self._due - self._clock()) > 0:  # noqa: ASYNC110 - time is what it waits for
                    await asyncio.sleep(ahead_s)
            except BaseException:
                self._slots.release()
                raise
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    @contextmanager
    def spending(self) -> Iterator[None]:
        """The time inside counts. Nothing is awaited there."""
        began = self._worked()
        try:
            yield
        finally:
            spent_s = self._worked() - began
            self._due = max(self._due, self._clock() - limits.ANSWER_BURST_S) + spent_s / limits.ANSWER_SHARE
