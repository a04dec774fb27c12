"""What an RM says it was told, compared with the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Headers, Message, Refused
from remuda_bus.halts import Halts
from remuda_bus.log import LogWriter, Position
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy.session import Rm, Sessions, State
from remuda_rmproxy.witness import Witness

RM = "rm-1"


@dataclass
class Case:
    witness: Witness
    sessions: Sessions
    halts: Halts
    told: Position  # what the log holds

    def on_record(self, state: State = "registered", registration: int = 2) -> None:
        self.sessions.tell(RM, Rm(RM, state=state, registration=registration).encode())

    async def beat(self, headers: Headers, registration: int = 2) -> None:
        await self.witness.heard(
            Message(subjects.heartbeat(RM), b"", {**headers, subjects.REGISTRATION: str(registration)})
        )


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    bus, sessions = MemoryBus(), Sessions()
    halts = Halts(bus, "rmproxy", lambda: 7)
    told = await LogWriter(bus, RM, Position()).append(log_pb2.Commit(now_ms=1))
    case = Case(Witness(bus, sessions, halts), sessions, halts, told)
    case.on_record()
    yield case
    await bus.close()


OTHER = Position(1, b"another commit").headers()
BEYOND = Position(5, b"later").headers()


async def test_what_the_log_holds_is_no_news(case: Case) -> None:
    for headers in ({}, case.told.headers()):
        await case.beat(headers)
        await case.witness.check_registration(RM, headers)
    assert case.halts.get(RM) is None


@pytest.mark.parametrize("headers", [OTHER, BEYOND])
async def test_what_it_does_not_hold_halts_the_rm(case: Case, headers: Headers) -> None:
    with pytest.raises(Refused, match="is halted: the RM was told what the log does not hold any more") as refused:
        await case.witness.check_registration(RM, headers)
    assert refused.value.code == 503
    with pytest.raises(Refused, match="is halted"):
        await case.witness.check_registration(RM, {})


async def test_a_heartbeat_says_so_as_well(case: Case) -> None:
    await case.beat(case.told.headers())
    assert case.halts.get(RM) is None
    await case.beat(BEYOND)
    assert case.halts.get(RM) is not None


async def test_who_is_not_the_rm_any_more_is_no_witness(case: Case) -> None:
    await case.beat(BEYOND, registration=1)
    assert case.halts.get(RM) is None


async def test_what_was_before_a_rebuilding_does_not_count(case: Case) -> None:
    case.on_record("report_wanted")
    await case.witness.check_registration(RM, BEYOND)
    await case.beat(BEYOND)
    assert case.halts.get(RM) is None


@pytest.mark.parametrize("headers", [{subjects.LOG_SEQ: "x"}, {subjects.LOG_SEQ: "1", subjects.LOG_HASH: "no hex"}])
async def test_headers_that_cannot_be_read(case: Case, headers: Headers) -> None:
    with pytest.raises(Refused, match="expected a number and hexadecimal digits") as refused:
        await case.witness.check_registration(RM, headers)
    assert refused.value.code == 400
    await case.beat(headers)
