"""Archives of whole systems, written by the process of the archive: the demo, a trace, a run with kills."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from remuda.local.system import Layout, System
from remuda.simulated_rm.demo.scene import queues_file, sites
from remuda.simulated_rm.demo.simulation import Simulation
from remuda.simulated_rm.driver import drive
from remuda.simulated_rm.load import openb
from remuda.simulated_rm.load.replay import CONFIG, QUEUE, Replay
from remuda.simulated_rm.load.samples import Samples
from remuda.simulated_rm.load.trace import steps
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from tests.chaos import OFTEN, Chaos
from tests.identity.archived import until_archived
from tests.patience import READY_S

SOON = ("archive.write=1s",)


@contextlib.asynccontextmanager
async def system_with(archive: Path, queues: str) -> AsyncIterator[tuple[System, Bus]]:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        (data / "queues.yaml").write_text(queues)
        layout = Layout(data, config=data / "queues.yaml", archive=str(archive), log_level="warning", assignments=SOON)
        async with System(layout) as system:
            await system.ready(READY_S)
            bus = await connect(system.url, "identity", timeout_s=30.0)
            try:
                yield system, bus
            finally:
                await bus.close()


async def demo(archive: Path, seconds: float = 8.0) -> None:
    """What `remuda demo` plays."""
    async with contextlib.AsyncExitStack() as stack:
        system, bus = await stack.enter_async_context(system_with(archive, queues_file()))
        simulations = [Simulation(site) for site in sites()]
        for one in simulations:
            driver = await stack.enter_async_context(
                drive(system.url, one.site.rm_id, config=one.site.config, placed=one.placed)
            )
            await one.prepare(driver)
        async with asyncio.TaskGroup() as players:
            for one in simulations:
                assert one.driver is not None
                players.create_task(one.play(one.driver, seconds, False))
        await until_archived(bus, archive)


async def trace(archive: Path, data: Path) -> None:
    """The openb trace, as fast as answers come."""
    nodes, pods = openb.read_nodes(data / "openb_node_list_all_node.csv"), openb.read_pods(_pods_of(data))
    async with contextlib.AsyncExitStack() as stack:
        system, bus = await stack.enter_async_context(system_with(archive, CONFIG))
        driver = await stack.enter_async_context(drive(system.url, "trace", config=CONFIG))
        replay = Replay(driver, bus, nodes, pods, None, Samples(), Counter(), QUEUE)
        await replay.prepare()
        await replay.run(steps(pods, 3_600.0))
        await until_archived(bus, archive)


def _pods_of(data: Path) -> Path:
    return next(path for path in sorted(data.glob("openb_pod_list_*.csv")) if "default" in path.name)


async def chaos(archive: Path, kills: int = 6, asks: int = 3_000, seconds: float = 15.0) -> list[str]:
    """`kill -9` of everything while RMs ask, the archive included. Returns inconsistencies."""
    os.environ.update(OFTEN)
    with tempfile.TemporaryDirectory() as data:
        options = Namespace(kills=kills, asks=asks, seconds=seconds, seed=1, spare_rms=False, archive=str(archive))
        return await Chaos(options, Path(data)).run()
