"""The state of one RM at a durable commit, for queries, whether this process follows or leads the RM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.status_codes import UNAVAILABLE
from remuda_replication.leader import Leader
from remuda_replication.log import Position

from .. import limits
from ..core import Core
from .answer_pace import Questions, Turn
from .copies import Copies, Source
from .forecasts import Forecasts
from .queries import Queries

DIGEST: Final = "digest"
KINDS: Final = (*(kind for kind in subjects.CORE_QUERIES if kind != DIGEST), subjects.GUESTS)

Request = dict[str, Any]


class Replica:
    """`position`: the last durable commit that this process knows. `leader`: set while this process leads. `in_child`:
    previews are played in forked children; else in this process."""

    def __init__(
        self, core: Core, position: Callable[[], Position], clock_ms: Callable[[], int], in_child: bool = True
    ) -> None:
        self._core = core
        self._position = position
        self._clock_ms = clock_ms
        self._in_child = in_child
        self.leader: Leader | None = None
        self._queries: Queries | None = None
        self._forecasts = Forecasts(clock_ms)
        self._asked_at = 0.0
        self._waiting: dict[asyncio.Future[None], None] = {}  # queries that wait for a commit, in their order

    async def digest(self, request: Request) -> bytes:
        """The digest of the state at the next commit, as JSON. Raises Refused."""
        await self.reached(request)
        if self.leader is None:
            raise Refused("this core does not lead any more, try again", UNAVAILABLE)
        seq, digest = await self.leader.snapshots.digest()
        return msgspec.json.encode({"rm": self._core.state.rm_id, "log_seq": seq, "digest": digest})

    async def preview(self, request: Request, copies: Copies) -> bytes:
        """The effects of a proposed configuration, as JSON. Raises Refused."""
        await self.reached(request)
        return await copies.preview(self.forked, self._core, request, self._clock_ms(), self._in_child)

    async def what_if(self, request: Request, copies: Copies) -> bytes:
        """The smallest changes that would let an ask run, as JSON. Raises Refused."""
        await self.reached(request)
        return await copies.what_if(self.forked, self._core, request, self._clock_ms(), self._in_child)

    async def eta(self, request: Request, copies: Copies) -> bytes:
        """When waiting asks will start, as JSON. Raises Refused."""
        await self.reached(request)
        return await copies.eta(self.forked, self._core, request, self._forecasts, self._in_child)

    def sample_forecasts(self, copies: Copies) -> None:
        """Somebody looks at forecasts: make new ones in the background, unless they are new. A process that may not
        fork makes none."""
        if self._in_child:
            copies.sample(self.forked, self._core, self._forecasts)

    async def forked(self, fork: Callable[[], Source]) -> tuple[Position, Source]:
        """The position of a durable commit, and the source that `fork` makes of the state there. Raises Refused."""
        made: list[Source] = []

        def forked() -> Source:
            made.append(fork())
            return made[0]

        if self.leader is None:
            return self._position(), forked()
        try:
            async with answered_within(limits.ANSWERED_WITHIN_S, self._core.state.rm_id):
                return await self.leader.ask(forked)
        except BaseException:
            for one in made:  # of a commit that is not durable in time
                await one.close()
            raise

    async def answer(self, kind: str, request: Request, questions: Questions) -> bytes:
        """Answer a query with JSON, which names the commit of the state. Raises Refused."""
        async with answered_within(limits.ANSWERED_WITHIN_S, self._core.state.rm_id):
            await self.reached(request)
            async with questions.turn() as turn:
                return await self._answer(kind, request, turn)

    async def _answer(self, kind: str, request: Request, turn: Turn) -> bytes:
        self._asked_at = _now()
        if self._queries is None:
            self._queries = Queries(self._core, self._forecasts)
            self._forget_later()
        question = partial(self._ask, self._queries.kinds[kind], request, turn)
        position, answer = await self.leader.ask(question) if self.leader else (self._position(), question())
        return b'%b,"log_seq":%d}' % (answer[:-1], position.seq)

    def moved(self) -> None:
        """Wakes what waits for a position; called when `position` has changed."""
        for moved in self._waiting:
            if not moved.done():
                moved.set_result(None)

    def _ask(self, question: Callable[[Request], dict[str, object]], request: Request, turn: Turn) -> bytes:
        """Answer and encode at once, because a leader changes the state before the commit is durable."""
        with turn.spending():
            return msgspec.json.encode({**question(request), "at_ms": self._core.state.now_ms})

    async def reached(self, request: Request) -> None:
        """Wait for the commit that the request names, if any. Raises Refused after LOG_SEQ_WITHIN_S, or at once where
        COMMITS_AWAITED wait."""
        log_seq = request.get("min_log_seq", 0)
        if type(log_seq) is not int or log_seq < 0:
            raise Refused(f"min_log_seq is {str(log_seq)[:64]!r}, expected the log_seq of a commit")
        until = _now() + limits.LOG_SEQ_WITHIN_S
        while self._position().seq < log_seq:
            if len(self._waiting) >= limits.COMMITS_AWAITED:
                raise Refused(f"{len(self._waiting)} questions wait for later commits, try again", UNAVAILABLE)
            moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[moved] = None
            try:
                async with asyncio.timeout_at(until):
                    await moved
            except TimeoutError:
                known = f"the last commit known here is {self._position().seq}"
                raise Refused(f"min_log_seq is {log_seq}: {known}", UNAVAILABLE) from None
            finally:
                del self._waiting[moved]

    def _forget_later(self) -> None:
        asyncio.get_running_loop().call_later(limits.ANSWERS_KEPT_S, self._forget)

    def _forget(self) -> None:
        """Drop listings and indexes for answers when there were no queries for ANSWERS_KEPT_S."""
        if _now() - self._asked_at < limits.ANSWERS_KEPT_S:
            self._forget_later()
            return
        self._queries = None
        if self.leader is None:
            self._core.index.forget()


@asynccontextmanager
async def answered_within(within_s: float, rm_id: str) -> AsyncIterator[None]:
    """Raises Refused when that has not ended in time."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError:
        reason = "it waits for its turn, or for the log to take the last commit (docs/operations.md)"
        raise Refused(f"no answer about {rm_id!r} within {within_s:g} s: {reason}", UNAVAILABLE) from None


def _now() -> float:
    return asyncio.get_running_loop().time()
