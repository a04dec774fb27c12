"""The books themselves, and that a comparison notices what is wrong with them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from remuda.local.system import Layout, System
from remuda_bus.nats import connect
from tests.accounting import AccountingRm, Books, Plan, verify
from tests.patience import READY_S

PLAN = Plan(asks=1_000, nodes=5, applications=3, lives_ms=100)


def test_books_that_are_read_again_are_the_same(tmp_path: Path) -> None:
    books = Books.open(Plan(asks=4), tmp_path / "journal")
    books.begins("report")
    books.sends(0, 3, 0)
    books.sent(0, 1)
    assert books.allocations([("u0", "k0.0", "n"), ("u1", "k1.0", "n")]) == ["u0"]
    books.ends(["u0"], "STOPPED_BY_RM")
    with (tmp_path / "journal").open("a") as journal:
        journal.write("new u2 k2.")  # killed while it wrote
    again = Books.open(Plan(asks=4), tmp_path / "journal")
    assert {k: v for k, v in vars(again).items() if k != "_file"} == {
        k: v for k, v in vars(books).items() if k != "_file"
    }
    again.allocations([("u2", "k2.0", "n")])
    assert Books.open(Plan(asks=4), tmp_path / "journal").doubtful == {2, 3}


@pytest.mark.parametrize(
    ("uuid", "key", "fault"),
    [("u9", "k0.0", "placed twice"), ("u0", "k1.0", "given twice"), ("u9", "k7.0", "never asked for")],
)
def test_nonsense_is_a_fault(tmp_path: Path, uuid: str, key: str, fault: str) -> None:
    books = Books.open(Plan(asks=4), tmp_path / "journal")
    books.sends(0, 3, 0)
    books.allocations([("u0", "k0.0", "n")])
    books.allocations([("u0", "k0.0", "n")])  # told again after a restart: no fault
    assert not books.faults and books.repeated == 1
    books.allocations([(uuid, key, "n")])
    assert fault in books.faults[0]


async def test_a_run_adds_up_and_a_false_book_does_not(tmp_path: Path) -> None:
    async with System(Layout(tmp_path / "system", log_level="warning")) as system:
        await system.ready(READY_S)
        books = Books.open(PLAN, tmp_path / "journal")
        rm = AccountingRm(system.url, "rm-1", books)
        working = asyncio.create_task(rm.run())
        await asyncio.wait_for(rm.settled.wait(), 60)
        working.cancel()
        await asyncio.wait([working])
        bus = await connect(system.url, "observer")
        try:
            core = next(process for process in system.processes if process.name.startswith("core"))
            assert core.pid is not None
            os.kill(core.pid, signal.SIGKILL)  # a moment ago, and no core leads
            assert await verify(bus, "rm-1", books) == []
            uuid = next(iter(books.running))
            books.ends([uuid], "STOPPED_BY_RM")
            problems = "\n".join(await verify(bus, "rm-1", books, within_s=0.1))
        finally:
            await bus.close()
    assert "the core has allocations that the RM has not: 1" in problems
    assert "the log has allocations that the RM has not: 1" in problems
    assert "node n-" in problems and "queues hold" in problems
    assert len(books.gone) == PLAN.asks * 3 // 5 + 1 and set(books.gone.values()) == {"STOPPED_BY_RM", "TIMEOUT"}
