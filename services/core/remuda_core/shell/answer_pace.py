"""The pace of answers: the number of questions that a process answers, and the share of its time that answers take.

Answers take time from the RMs that the process leads or follows, and a follower may share a processor with a leader. So
answers have a share of the time. A few queries beyond that wait; others are refused at once, so that their senders do
not wait for a time-out. Each RM has its own places: questions about an RM whose log is full wait for each other only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from remuda_bus.bus import Refused
from remuda_bus.status_codes import UNAVAILABLE

from .. import limits


class AnswerPace:
    """`clock` and `worked`, the processor time of this thread, in seconds. A machine that is busy with something else
    makes answers late, but it does not make them take more of the share."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._worked = worked
        self._questions: dict[str, Questions] = {}  # of RMs about which there are any
        self._next = asyncio.Lock()  # first come, first served
        self._due = clock()  # when all that was spent is within the share

    @contextmanager
    def asked(self, rm_id: str) -> Iterator[Questions]:
        """Inside, a question about the RM waits or is answered. Raises Refused: too many are."""
        questions = self._questions.setdefault(rm_id, Questions(self))
        if questions.count >= limits.QUESTIONS_WAITING:
            raise Refused(
                f"{questions.count} questions about {rm_id[:64]!r} wait for this core, try again", UNAVAILABLE
            )
        questions.count += 1
        try:
            yield questions
        finally:
            questions.count -= 1
            if not questions.count:
                del self._questions[rm_id]

    async def within_share(self) -> None:
        """Return when what was spent is within the share of the time. Between two answers the loop serves all else
        once: the share alone does not bound answers in a row on a machine that gives this process half its time."""
        async with self._next:
            await asyncio.sleep(0)
            while (ahead_s := self._due - self._clock()) > 0:  # noqa: ASYNC110 - time is what it waits for
                await asyncio.sleep(ahead_s)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """The time inside counts. Nothing is awaited there."""
        began = self._worked()
        try:
            yield
        finally:
            spent_s = self._worked() - began
            self._due = max(self._due, self._clock() - limits.ANSWER_BURST_S) + spent_s / limits.ANSWER_SHARE


class Questions:
    """The questions about one RM. `count`: all that wait or are being answered."""

    def __init__(self, pace: AnswerPace) -> None:
        self.count = 0
        self._pace = pace
        self._slots = asyncio.Semaphore(limits.ANSWERED_AT_ONCE)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Waits until a question may be answered."""
        await self._slots.acquire()
        turn = Turn(self._pace, self._slots)
        try:
            await self._pace.within_share()
            yield turn
        finally:
            turn.end()


class Turn:
    """A slot, which is free again once the answer is computed: the answer may wait for a commit to be durable."""

    def __init__(self, pace: AnswerPace, slots: asyncio.Semaphore) -> None:
        self._pace = pace
        self._slots = slots
        self._ended = False

    @contextmanager
    def spending(self) -> Iterator[None]:
        """The answer is computed inside. Nothing is awaited there."""
        try:
            with self._pace.spending():
                yield
        finally:
            self.end()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._slots.release()
