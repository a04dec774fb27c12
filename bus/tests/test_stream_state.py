"""The numbers of a stream, of a real server and in memory."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import NatsBus


async def check(bus: Bus) -> None:
    stream = subjects.DEAD_LETTERS
    assert (await bus.stream_state(stream.name)).last_seq == 0
    await bus.append(subjects.dead_letter("a"), b"x" * 50_000)
    state = await bus.stream_state(stream.name)
    assert (state.messages, state.max_bytes, state.last_seq) == (1, stream.max_bytes, 1)
    assert 50_000 < state.bytes < 60_000
    assert state.leader and not state.behind and not state.lag and not state.consumers


async def test_of_a_server(bus: NatsBus) -> None:
    await check(bus)
    took_s = await bus.round_trip_s()
    assert took_s is not None and 0 < took_s < 5


async def test_in_memory() -> None:
    await check(MemoryBus())
