"""The event history as an RM hears it, through every process; the events process is killed in the middle of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

from remuda.local.supervisor import Process
from remuda.local.system import Layout, System
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import READY_S

RM = "rm:events"
NODES = 20
ASKS = 3_000
WITHIN_S = 60.0

Kind = tuple[int, int]  # type of the object, detail
APP_REQUEST = (si.EventRecord.APP, si.EventRecord.APP_REQUEST)
APP_ALLOC = (si.EventRecord.APP, si.EventRecord.APP_ALLOC)
NODE_ALLOC = (si.EventRecord.NODE, si.EventRecord.NODE_ALLOC)


async def test_an_rm_hears_of_every_allocation_once_though_events_is_killed(tmp_path: Path):
    async with System(Layout(tmp_path)) as system:
        await system.ready(READY_S)
        async with ResourceManager.connect(system.url, RM, events=True) as rm:
            heard: dict[Kind, Counter[str]] = {APP_REQUEST: Counter(), APP_ALLOC: Counter(), NODE_ALLOC: Counter()}
            allocated: list[str] = []
            await rm.report_nodes([node(f"n{number}", vcore=200_000, memory=2**38) for number in range(NODES)])
            await rm.submit(application("app-1", user="ann", tags={"namespace": "events"}))
            await rm.ask([ask("app-1", f"k{number}", vcore=1_000, memory=2**20) for number in range(ASKS)])
            events, killed = process_of(system, "events"), False
            async with asyncio.timeout(WITHIN_S):
                async for callback in rm.callbacks():
                    if isinstance(callback, si.AllocationResponse):
                        allocated += [one.UUID for one in callback.new]
                    elif isinstance(callback, si.EventRecord):
                        kind = (callback.type, callback.eventChangeDetail)
                        if kind in heard:
                            heard[kind][callback.referenceID] += 1
                        if not killed and heard[APP_ALLOC].total() == ASKS // 10:
                            kill(events)
                            killed = True
                    if all(counter.total() >= ASKS for counter in heard.values()) and len(allocated) == ASKS:
                        break
            assert events.restarts == 1

    keys = Counter(f"k{number}" for number in range(ASKS))
    assert heard == {APP_REQUEST: keys, APP_ALLOC: Counter(allocated), NODE_ALLOC: keys}
    assert len(set(allocated)) == ASKS


def process_of(system: System, name: str) -> Process:
    return next(process for process in system.processes if process.name == name)


def kill(process: Process) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
