"""An rmproxy that was stopped in the middle of its work must not keep requests from the one that took over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus, Outgoing
from remuda_bus.nats import connect
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.records.rm_record import RmRecord
from services.rmproxy.tests.forwarding import forwarder_of, trimmer_of

RM = "rm-1"
REQUESTS = 100


class Stopped:
    """The bus of a process that got SIGSTOP before its first append."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._bus, verb)

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        await asyncio.Event().wait()
        raise AssertionError


async def test_requests_are_forwarded_in_order_beside_a_stopped_rmproxy(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        buses = [await connect(server.url, name, timeout_s=5) for name in ("stopped", "working", "rm")]
        await buses[0].declare()
        await buses[0].put(subjects.RMS.name, RM, RmRecord(RM, state="registered").encode())
        bus: Any
        tasks = []
        for bus in (Stopped(buses[0]), buses[1]):
            forwarder = forwarder_of(bus)
            tasks += [asyncio.ensure_future(forwarder.run()), asyncio.ensure_future(trimmer_of(forwarder).run())]
        request = si.NodeRequest(rmID=RM).SerializeToString()
        sent = [await buses[2].append(subjects.request(RM, "node"), request) for _ in range(REQUESTS)]
        inbox = await buses[2].read(subjects.INBOX.name, subjects.inbox(RM))
        forwarded: list[int] = []
        async with asyncio.timeout(10):
            while len(forwarded) < REQUESTS:
                commands = [inbox_pb2.Command.FromString(message.payload) for message in await inbox.batch()]
                forwarded += [command.request_seq for command in commands]
        assert forwarded == sent
        while await buses[2].last_message(subjects.REQUESTS.name, ">") is not None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for bus in buses:
            await bus.close()
