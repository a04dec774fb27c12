"""Who is told, and until when."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus.bus import Unanswered
from remuda_bus.halts import Halts
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy.tellers import Tellers


async def test_nobody_is_told_by_a_process_that_is_ending() -> None:
    async def decided(rm_id: str, decision: log_pb2.Decision) -> None:
        raise AssertionError

    bus = MemoryBus()
    async with asyncio.TaskGroup() as group:
        tellers = Tellers(bus, group, Halts(bus, "rmproxy", lambda: 0), decided)
    with pytest.raises(Unanswered, match="ending"):
        tellers.follow("rm-1")
