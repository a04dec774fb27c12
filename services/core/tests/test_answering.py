"""A core answers questions about each of its RMs, whatever becomes of the questions about another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Full, Refused, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_core import limits
from remuda_core.core import Core
from remuda_core.shell.main import main
from remuda_core.shell.replica import Replica
from remuda_core.shell.settings import CoreSettings
from remuda_replication.log import Position
from remuda_replication.rms.halts import Halts

STUCK, OTHER = "rm-stuck", "rm-other"


class OneLogIsFull(MemoryBus):
    """`refused`: nothing more is taken by the log of STUCK, and this was tried."""

    def __init__(self) -> None:
        super().__init__()
        self.full, self.refused = False, asyncio.Event()

    async def append(self, subject: str, *args, **options) -> int:
        if self.full and subject == subjects.log(STUCK):
            self.refused.set()
            raise Full("maximum bytes exceeded")
        return await super().append(subject, *args, **options)


async def query(bus: MemoryBus, rm_id: str, kind: str, within_s: float = 5.0, **request: Any) -> dict[str, Any]:
    reply = await bus.request(subjects.core_query(rm_id, kind), json.dumps(request).encode(), timeout_s=within_s)
    return json.loads(reply.payload)


async def answered(bus: MemoryBus, rm_id: str) -> dict[str, Any]:
    """The answer, once a core leads the RM."""
    while True:
        try:
            return await query(bus, rm_id, "stats", within_s=0.2)
        except (Refused, Unanswered):
            await asyncio.sleep(0)


async def unreadable(bus: MemoryBus, rm_id: str) -> None:
    """A message that has its RM commit."""
    await bus.append(subjects.inbox(rm_id), b"\xff\xff")


@asynccontextmanager
async def leading(bus: OneLogIsFull, full: bool = True) -> AsyncIterator[None]:
    """A core that leads both, without a standby. `full`: the log of STUCK takes nothing more."""
    core = asyncio.create_task(main(bus, CoreSettings(instance="one", snapshot_in_child=False)))
    try:
        async with asyncio.timeout(10):
            for rm_id in (STUCK, OTHER):
                await bus.put(subjects.RMS.name, subjects.key_of(rm_id), b"{}")
                await unreadable(bus, rm_id)
                await answered(bus, rm_id)
            if full:
                bus.full = True
                await unreadable(bus, STUCK)
                await bus.refused.wait()
            yield
    finally:
        core.cancel()
        await asyncio.wait([core])
        await bus.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_core.limits.ANSWERED_WITHIN_S", 0.5)


async def test_questions_about_an_rm_with_a_full_log_hold_up_no_others() -> None:
    bus = OneLogIsFull()
    async with leading(bus):
        asked = [asyncio.create_task(query(bus, STUCK, "stats")) for _ in range(3 * limits.ANSWERED_AT_ONCE)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert (await query(bus, OTHER, "stats"))["rm"] == OTHER
        assert not any(one.done() for one in asked)
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert {(type(one), getattr(one, "code", None)) for one in found} == {(Refused, 503)}
        assert "no answer about 'rm-stuck' within 0.5 s" in str(found[0])


async def test_a_halted_rm_leaves_no_question_without_an_answer() -> None:
    bus = OneLogIsFull()
    async with leading(bus):
        asked = [asyncio.create_task(query(bus, STUCK, "stats")) for _ in range(10)]
        for _ in range(20):
            await asyncio.sleep(0)
        await Halts(bus, "test", lambda: 1).halt(STUCK, "a test")
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert {(type(one), getattr(one, "code", None)) for one in found} == {(Refused, 503)}
        assert "this process does not lead any more, try again" in map(str, found)
        assert (await query(bus, OTHER, "stats"))["rm"] == OTHER


async def test_questions_for_a_later_commit_are_bounded_and_leave_room_for_others() -> None:
    bus = OneLogIsFull()
    async with leading(bus, full=False):
        later = [
            asyncio.create_task(query(bus, STUCK, "stats", min_log_seq=1_000_000))
            for _ in range(limits.COMMITS_AWAITED + 20)
        ]
        for _ in range(20):
            await asyncio.sleep(0)
        refused = [one.exception() for one in later if one.done()]
        assert [str(one) for one in refused] == ["50 questions wait for later commits, try again"] * 20
        for rm_id in (STUCK, OTHER):
            assert (await query(bus, rm_id, "stats"))["rm"] == rm_id
        found = await asyncio.gather(*later, return_exceptions=True)
        assert {(type(one), getattr(one, "code", None)) for one in found} == {(Refused, 503)}


async def test_a_fork_of_a_commit_that_is_not_durable_in_time_is_closed() -> None:
    closed = asyncio.Event()

    class Source:
        async def close(self) -> None:
            closed.set()

    class Stuck:
        async def ask(self, question: Callable[[], Any]) -> None:
            question()
            await asyncio.Event().wait()

    replica = Replica(Core(STUCK), Position, lambda: 0)
    replica.leader = Stuck()  # type: ignore[assignment]
    with pytest.raises(Refused, match="no answer about 'rm-stuck' within 0.5 s"):
        await replica.forked(Source)  # type: ignore[arg-type]
    assert closed.is_set()
