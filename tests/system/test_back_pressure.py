"""Full streams and slow RMs: over a real nats-server, with limits that are soon reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Full
from remuda_bus.nats import NatsBus
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import DeadLetter, ResourceManager, application, ask, node
from tests.system.running import QUEUES, running, until


@asynccontextmanager
async def doors(url: str) -> AsyncIterator[None]:
    """Everything but the core."""
    async with (
        running(url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(url, "rmproxy", rmproxy_main),
    ):
        yield


async def resize(bus: NatsBus, stream: subjects.Stream, max_bytes: int) -> None:
    config = (await bus._jetstream.api(f"STREAM.INFO.{stream.name}"))["config"]
    await bus._jetstream.api(f"STREAM.UPDATE.{stream.name}", {**config, "max_bytes": max_bytes})


async def begin(rm: ResourceManager) -> None:
    await rm.report_nodes([node("n1", vcore=100_000)])
    await rm.submit(application("app-1", queue="root.a", user="u"))


def connected(url: str, rm_id: str = "rm-1", **options: float) -> ResourceManager:
    return ResourceManager.connect(url, rm_id, config=QUEUES, register=False, **options)  # type: ignore[arg-type]


async def registered(rm: ResourceManager) -> None:
    while True:
        try:
            return await rm.register()
        except Exception:  # noqa: BLE001 - no rmproxy or core is there yet
            await asyncio.sleep(0.05)


async def allocations(rm: ResourceManager, count: int) -> list[str]:
    """UUIDs, in the order in which they come."""
    told: list[str] = []
    async with asyncio.timeout(30):
        async for callback in rm.callbacks():
            assert not isinstance(callback, DeadLetter), callback
            if isinstance(callback, si.AllocationResponse):
                told += [one.UUID for one in callback.new]
            if len(told) >= count:
                break
    return told


async def test_full_streams_refuse_and_nothing_is_lost(server: NatsServer, bus: NatsBus) -> None:
    """A full inbox keeps requests where they are; when there is no room for those either, the RM is told; when there is
    room again, everything goes on."""
    async with doors(server.url), connected(server.url) as rm, connected(server.url, retry_for_s=0.3) as impatient:
        async with running(server.url, "core", core_main, CoreSettings):
            await registered(rm)
            await begin(rm)
            await rm.ask([ask("app-1", "first", vcore=1)])
            await allocations(rm, 1)
        await resize(bus, subjects.INBOX, 60_000)
        await resize(bus, subjects.REQUESTS, 60_000)
        asked = 0
        with pytest.raises(Full, match="maximum bytes"):
            while True:
                await impatient.ask([ask("app-1", f"k{asked}-{n}", vcore=1) for n in range(100)])
                asked += 100
        assert asked >= 1_000
        patient = asyncio.create_task(rm.ask([ask("app-1", f"last-{n}", vcore=1) for n in range(100)]))
        async with running(server.url, "core", core_main, CoreSettings):
            room = asyncio.create_task(_make_room(bus))
            told = await allocations(rm, asked + 101)
            assert await patient
            room.cancel()
            assert len(told) == len(set(told)) == asked + 101


async def _make_room(bus: NatsBus) -> None:
    """As it is made behind snapshots."""
    while True:
        end = await bus.last_message(subjects.INBOX.name, subjects.inbox("rm-1"))
        if end is not None and await _handled(bus) >= end.seq:
            await bus.trim(subjects.INBOX.name, subjects.inbox("rm-1"), end.seq + 1)
        await asyncio.sleep(0.05)


async def _handled(bus: NatsBus) -> int:

    reply = await bus.request(subjects.core_query("rm-1", "stats"), b"{}", timeout_s=10)
    return int(json.loads(reply.payload)["inbox_seq"])


async def test_a_slow_rm_delays_only_itself(server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNACKNOWLEDGED_MESSAGES", 30)
    monkeypatch.setattr(limits, "ACKNOWLEDGED_CHECK_MESSAGES", 1)
    async with (
        doors(server.url),
        running(server.url, "core", core_main, CoreSettings),
        connected(server.url, "slow") as slow,
        connected(server.url, "quick") as quick,
    ):
        for rm in (slow, quick):
            await registered(rm)
            await begin(rm)
            for number in range(200):  # one by one: each is a message at least
                await rm.ask([ask("app-1", f"k{number}", vcore=1)])
                if rm is slow:
                    await asyncio.sleep(0.002)
        assert len(set(await allocations(quick, 200))) == 200
        waiting = await bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer("slow"))
        assert waiting is not None and 30 < waiting.waiting < 100

        told = await allocations(slow, 200)
        assert len(set(told)) == 200 and told == sorted(told)


async def test_a_slow_rm_may_register_again(server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its registration stands in the log behind what it is not told yet."""
    monkeypatch.setattr(limits, "UNACKNOWLEDGED_MESSAGES", 3)
    monkeypatch.setattr(limits, "ACKNOWLEDGED_CHECK_MESSAGES", 1)
    async with doors(server.url), running(server.url, "core", core_main, CoreSettings), connected(server.url) as rm:
        await registered(rm)
        await begin(rm)
        for number in range(50):
            await rm.ask([ask("app-1", f"k{number}", vcore=1)])

        async def is_held() -> bool:
            state = await bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer("rm-1"))
            return state is not None and state.waiting > 3

        await until(is_held)
        await rm.register("replay")
        assert len(set(await allocations(rm, 50))) == 50
