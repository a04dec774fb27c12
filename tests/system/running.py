"""Services in tasks of the test, each with a connection of its own to a real nats-server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused, Unanswered
from remuda_bus.nats import Access, NatsBus, connect
from remuda_bus.settings import load
from remuda_config.shell import ConfigSettings
from remuda_config.shell import main as config_main
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.lease import LeaseLost
from remuda_replication.process import Settings
from remuda_rmproxy.records.status_codes import OUTAGE
from remuda_rmproxy.settings import RmproxySettings
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import RegistrationFailed, ResourceManager
from tests.patience import PATIENCE

Main = Callable[[Bus, Any], Awaitable[None]]
# One leaf queue, open to all.
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
# Queue b may take back its guaranteed resources from queue a.
TWO_QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a}
          - {name: b, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 1s}}
"""


@asynccontextmanager
async def running(
    url: str, name: str, main: Main, settings: Callable[..., Settings] = Settings, access: Access | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A service until the block is left; raises what it failed with meanwhile. On a busy machine rmproxy may lose its
    lease; it is started again then, as a supervisor does."""

    async def connected() -> NatsBus:
        bus = await connect(url, f"remuda-{name}", timeout_s=5, access=access)
        await bus.declare()
        await bus.announce(name)
        return bus

    bus = await connected()

    def own() -> Settings:
        if isinstance(settings, type):  # the environment counts, as in a process
            return load(settings, None, [f"nats.url={url}", f"instance={name}"]).settings
        return settings(nats_url=url, instance=name)

    async def work() -> None:
        nonlocal bus
        while True:
            try:
                return await main(bus, own())
            except LeaseLost:
                await bus.close()
                bus = await connected()

    task = asyncio.create_task(work())
    try:
        yield task
    finally:
        failed = task.done() and not task.cancelled() and task.exception()
        task.cancel()
        await asyncio.wait([task])
        await bus.close()
        if failed:
            raise failed


@asynccontextmanager
async def process_of(
    service: str, url: str, *options: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A service as a process of its own, which is killed at the end; its log can be read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", "run", service, "--nats", url, *options,
        env={"REMUDA_INSTANCE": f"{service}-1", **environment}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def around_the_core(url: str, file: Path | None = None) -> AsyncIterator[NatsBus]:
    """The configuration service, with this file, and rmproxy; yields a connection of the test's own when they
    answer."""
    async with (
        running(url, "config", lambda bus, settings: config_main(bus, settings, file), ConfigSettings),
        running(url, "rmproxy", rmproxy_main, RmproxySettings),
    ):
        await until(lambda: serves(url))
        bus = await connect(url, "test", timeout_s=5)
        yield bus
        await bus.close()


async def serves(url: str) -> bool:
    """Whether an rmproxy and a config service answer: they say that this configuration is no good."""
    try:
        async with ResourceManager.connect(url, "probe", config="odd: 1"):
            return True
    except RegistrationFailed as failure:
        return failure.code != OUTAGE


async def listens(bus: NatsBus) -> bool:
    """Whether an rmproxy answers registrations: it refuses this one."""
    try:
        await bus.request(subjects.register("nobody"), b"", timeout_s=5)
    except Refused:
        return True
    except Unanswered:
        return False
    return True


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 30.0) -> None:
    """Asks again and again; TimeoutError when it does not come to hold."""
    async with asyncio.timeout(within_s * PATIENCE):
        while not await holds():  # noqa: ASYNC110 - nothing tells a test when a server has done its work
            await asyncio.sleep(0.02)


async def placed(rm: ResourceManager, *keys: str) -> list[si.Allocation]:
    """Waits until all of them are; callbacks are moved on from."""
    found: dict[str, si.Allocation] = {}
    async with asyncio.timeout(30 * PATIENCE):
        async for callback in rm.callbacks():
            if isinstance(callback, si.AllocationResponse):
                found |= {one.allocationKey: one for one in callback.new}
            if found.keys() >= set(keys):
                break
    return [found[key] for key in keys]
