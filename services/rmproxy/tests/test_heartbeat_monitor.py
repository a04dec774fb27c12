"""Heartbeats of many RMs at once, over a bus that takes its time."""

import asyncio
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.heartbeat_monitor import HeartbeatMonitor

RMS = 300


class Slow:
    """Every append takes 10 ms."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    async def append(self, *args: Any, **options: Any) -> int:
        await asyncio.sleep(0.01)
        return await self._bus.append(*args, **options)


async def test_each_rm_is_reported_once_however_many_there_are(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "LIVENESS_INTERVAL_S", 0.05)
    bus, registry = MemoryBus(), RmRegistry()
    rms = [RmRecord(f"rm-{n}", state="registered", extra_config={"heartbeat.interval": "1h"}) for n in range(RMS)]
    for rm in rms:
        registry.update(rm.rm_id, rm.encode())
    hearing = HeartbeatMonitor(Slow(bus), registry)  # type: ignore[arg-type]

    async def beat() -> None:
        while True:
            for rm in rms:
                await hearing.on_heartbeat(Message(subjects.heartbeat(rm.rm_id), b""))
            await asyncio.sleep(0.1)

    working = asyncio.gather(hearing.run(), beat())
    inbox = await bus.read(subjects.INBOX.name, "remuda.inbox.*")
    reported: list[str] = []
    while len(reported) < RMS:
        for message in await inbox.batch():
            connection = inbox_pb2.Command.FromString(message.payload).rm_connection
            reported.append(f"{subjects.rm_of(message.subject)} {connection.state}")
    assert await inbox.batch(timeout_s=0.5) == []
    working.cancel()
    assert sorted(reported) == sorted(f"{rm.rm_id} back" for rm in rms)
    await bus.close()
