"""An RM is forgotten while everything runs: no service has to be started anew, and no other RM hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from remuda.admin.forget import check_forgettable, forget_rm
from remuda.embedded import NatsServer
from remuda.errors import UserError
from remuda_bus import subjects
from remuda_bus.nats import NatsBus, connect
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve
from remuda_replication.rms.forget import kept_in_buckets, kept_in_streams
from remuda_rmproxy import limits
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import QUEUES, placed, running, until


@pytest.fixture
async def server(tmp_path: object) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as server:  # type: ignore[operator]
        yield server


async def left_of(bus: NatsBus, rm_id: str) -> list[str]:
    found = [
        subject for stream, subject in kept_in_streams(rm_id) if await bus.last_message(stream, subject) is not None
    ]
    found += [bucket for bucket, key in kept_in_buckets(rm_id) if await bus.get(bucket, key) is not None]
    prefix = f"{subjects.key_of(rm_id)}."
    found += [name for name in await bus.object_names(subjects.SNAPSHOTS.name) if name.startswith(prefix)]
    for stream, durable in (
        (subjects.CALLBACKS.name, subjects.callback_consumer(rm_id)),
        (subjects.EVENTS.name, subjects.event_consumer(rm_id)),
    ):
        if await bus.consumer_state(stream, durable) is not None:
            found.append(durable)
    return found


async def works(rm: ResourceManager, key: str) -> str:
    """The UUID of an allocation."""
    await rm.report_nodes([node("n1", vcore=100)])
    await rm.submit(application("app-1", queue="root.a", user="u"))
    await rm.ask([ask("app-1", key, vcore=1)])
    (one,) = await placed(rm, key)
    return one.UUID


async def test_all_of_one_goes_and_it_may_come_again(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORGET_INTERVAL_S", 0.1)
    url = server.url
    bus = await connect(url, "test", timeout_s=5)
    async with (
        running(url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(url, "events", lambda bus, settings: serve(bus, settings.instance)),
        running(url, "rmproxy", rmproxy_main),
        running(url, "core", core_main, CoreSettings),
        ResourceManager.connect(url, "good", config=QUEUES, register=False) as good,
    ):
        await registered(good)
        kept = await works(good, "k1")
        async with ResourceManager.connect(url, "bad", config=QUEUES, extra_config={"events": "true"}) as bad:
            first = await works(bad, "k1")
            with pytest.raises(UserError, match="bad is registered, and its state is Running"):
                await forgotten(url, "bad")
            await bad.deregister()
        assert await left_of(bus, "bad")
        await forgotten(url, "bad")
        assert await left_of(bus, "bad") == []
        with pytest.raises(UserError, match="no data of a resource manager 'bad'"):
            await forgotten(url, "bad")

        extra = {"forget.after": "0s"}  # and now by itself
        async with ResourceManager.connect(url, "bad", config=QUEUES, register=False, extra_config=extra) as bad:
            await registered(bad)
            assert await works(bad, "k1") != first
            await bad.deregister()

        async def is_gone() -> bool:
            return await left_of(bus, "bad") == []

        await until(is_gone, 20)
        await good.ask([ask("app-1", "k2", vcore=1)])
        (one,) = await placed(good, "k2")
        assert kept != one.UUID
        assert subjects.log("good") in await left_of(bus, "good")
    await bus.close()


async def forgotten(url: str, rm_id: str) -> None:
    """As `remuda rm forget` does."""
    await check_forgettable(url, rm_id, although_registered=False)
    await forget_rm(url, rm_id)


async def registered(rm: ResourceManager) -> None:
    while True:
        try:
            return await rm.register()
        except Exception:  # noqa: BLE001 - no rmproxy or core is there yet
            await asyncio.sleep(0.05)
