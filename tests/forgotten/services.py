"""All services in tasks of the test, each started again when it dies, as a supervisor does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from remuda_bus.bus import BusError
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as events_serve
from remuda_replication.process import Settings
from remuda_rmproxy.shell import main as rmproxy_main
from tests.system.running import Main, running, serves, until

log = structlog.get_logger()


async def _events(bus, settings: Settings) -> None:
    await events_serve(bus, settings.instance, ledger_tags=())


class Eager(CoreSettings):
    """A snapshot of everything, so that they are among the witnesses."""

    snapshot_facts: int = 1
    snapshot_apart_s: float = 0.0
    snapshot_s: float = 0.0
    replay_horizon_s: float = 0.0
    snapshot_in_child: bool = False


SERVICES: Mapping[str, tuple[Main, type[Settings]]] = {
    "config": (lambda bus, settings: config_main(bus, settings, None), Settings),
    "core-1": (core_main, Eager),
    "core-2": (core_main, Eager),
    "rmproxy": (rmproxy_main, Settings),
    "events": (_events, Settings),
}


class Services:
    def __init__(self, url: str) -> None:
        self._url = url
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Services:
        self.start()
        await until(lambda: serves(self._url), within_s=60)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self, *names: str) -> None:
        for name in names or SERVICES:
            self._tasks[name] = asyncio.create_task(self._keep(name), name=name)

    async def stop(self, *names: str) -> None:
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _keep(self, name: str) -> None:
        while True:
            try:
                async with running(self._url, name, *SERVICES[name]) as task:
                    await asyncio.wait([task])
            except (BusError, OSError) as error:
                log.info("died", service=name, error=repr(error))
                await asyncio.sleep(0.1)
