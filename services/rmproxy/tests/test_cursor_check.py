"""Callback cursors that RMs state, compared with the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Headers, Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogWriter, Position
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord, State
from remuda_rmproxy.sessions import cursor_check
from remuda_rmproxy.sessions.cursor_check import CursorCheck

RM = "rm-1"


@dataclass
class Case:
    cursor_check: CursorCheck
    registry: RmRegistry
    halts: Halts
    told: Position  # of the commit that the log holds

    def on_record(self, state: State = "registered", registration: int = 2) -> None:
        self.registry.update(RM, RmRecord(RM, state=state, registration=registration).encode())

    async def beat(self, headers: Headers, registration: int = 2) -> None:
        said = {**headers, subjects.REGISTRATION: str(registration)}
        await self.cursor_check.on_heartbeat(Message(subjects.heartbeat(RM), b"", said))
        for _ in range(10):
            await asyncio.sleep(0)  # it is compared meanwhile; the bus takes no time


@pytest.fixture
async def case(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Case]:
    bus, registry = MemoryBus(), RmRegistry()
    halts = Halts(bus, "rmproxy", lambda: 7)
    told = await LogWriter(bus, RM, Position()).append(log_pb2.Commit(now_ms=1))
    case = Case(CursorCheck(bus, registry, halts), registry, halts, told)
    case.on_record()
    monkeypatch.setattr(limits, "CURSOR_CHECK_INTERVAL_S", 0.0)
    comparing = asyncio.create_task(case.cursor_check.run())
    yield case
    comparing.cancel()
    await asyncio.gather(comparing, return_exceptions=True)
    await bus.close()


OTHER = Position(1, b"another commit").headers()
BEYOND = Position(5, b"later").headers()


async def test_a_cursor_that_the_log_holds_changes_nothing(case: Case) -> None:
    for headers in ({}, case.told.headers()):
        await case.beat(headers)
        await case.cursor_check.check_registration(RM, case.registry.get(RM), headers)
    assert case.halts.get(RM) is None


@pytest.mark.parametrize("headers", [OTHER, BEYOND])
async def test_a_cursor_that_the_log_does_not_hold_halts_the_rm(case: Case, headers: Headers) -> None:
    with pytest.raises(Refused, match="is halted: the RM has a callback of a commit") as refused:
        await case.cursor_check.check_registration(RM, case.registry.get(RM), headers)
    assert refused.value.code == 503
    with pytest.raises(Refused, match="is halted"):
        await case.cursor_check.check_registration(RM, case.registry.get(RM), {})


async def test_a_heartbeat_states_a_cursor_as_well(case: Case) -> None:
    await case.beat(case.told.headers())
    assert case.halts.get(RM) is None
    await case.beat(BEYOND)
    assert case.halts.get(RM) is not None


async def test_a_flood_of_heartbeats_is_checked_once_and_delays_no_other_rm(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says something else, and each comparison takes long."""
    monkeypatch.setattr(limits, "CURSOR_CHECK_INTERVAL_S", 1.0)
    compared: list[str] = []
    never = asyncio.Event()

    async def slow(bus: object, rm_id: str, position: Position) -> None:
        compared.append(rm_id)
        if rm_id == RM:
            await never.wait()

    monkeypatch.setattr(cursor_check, "check_commit", slow)
    case.registry.update("other", RmRecord("other", state="registered", registration=2).encode())

    async def beat(rm_id: str, number: int) -> None:
        said = {**Position(number, b"x").headers(), subjects.REGISTRATION: "2"}
        await case.cursor_check.on_heartbeat(Message(subjects.heartbeat(rm_id), b"", said))

    for number in range(1, 1_000):
        await beat(RM, number)
    await beat("other", 1)
    async with asyncio.timeout(5):
        while "other" not in compared:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert compared == [RM, "other"]


async def test_the_cursor_of_a_superseded_registration_is_ignored(case: Case) -> None:
    await case.beat(BEYOND, registration=1)
    assert case.halts.get(RM) is None


async def test_a_cursor_from_before_a_rebuild_is_ignored(case: Case) -> None:
    case.on_record("report_wanted")
    await case.cursor_check.check_registration(RM, case.registry.get(RM), BEYOND)
    await case.beat(BEYOND)
    assert case.halts.get(RM) is None


@pytest.mark.parametrize("headers", [{subjects.LOG_SEQ: "x"}, {subjects.LOG_SEQ: "1", subjects.LOG_HASH: "no hex"}])
async def test_headers_that_cannot_be_read(case: Case, headers: Headers) -> None:
    with pytest.raises(Refused, match="expected (a number|at most 64 hexadecimal digits)") as refused:
        await case.cursor_check.check_registration(RM, case.registry.get(RM), headers)
    assert refused.value.code == 400
    await case.beat(headers)
