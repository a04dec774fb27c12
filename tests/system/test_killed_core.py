"""The core is killed in the middle of a load: after its restart every ask is allocated exactly once, seen from the RM
and from the nodes."""

import asyncio
import os
import signal
from collections import Counter

import psutil

from remuda.local.system import Layout, System
from remuda_bus.nats import connect
from remuda_operations.queries.core import nodes as query_nodes
from remuda_operations.queries.core import queues as query_queues
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import READY_S

NODES, SLOTS, ASKS = 200, 100, 20_000
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a}, {name: b}]
"""


class Told:
    """The callbacks of the RM, and an event for the last one."""

    def __init__(self) -> None:
        self.allocations: list[si.Allocation] = []
        self.some = asyncio.Event()
        self.all = asyncio.Event()

    async def allocated(self, response: si.AllocationResponse) -> None:
        assert not response.rejected
        self.allocations.extend(response.new)
        if len(self.allocations) >= ASKS // 4:
            self.some.set()
        if len(self.allocations) >= ASKS:
            self.all.set()


async def test_every_ask_is_allocated_exactly_once_though_the_core_is_killed(tmp_path):
    async with System(Layout(tmp_path, log_level="warning")) as system:
        await system.ready(READY_S)
        assert_separate_processes(system)
        async with ResourceManager.connect(system.url, "killed", config=QUEUES) as rm:
            told = Told()
            rm.on_allocation(told.allocated)
            await rm.report_nodes(node(f"n-{i:03}", vcore=SLOTS, memory=10 * SLOTS) for i in range(NODES))
            await rm.submit(
                application("app-a", queue="root.a", user="u"), application("app-b", queue="root.b", user="u")
            )
            await rm.ask(ask(f"app-{'ab'[i % 2]}", f"ask-{i}", vcore=1, memory=10) for i in range(ASKS))
            await asyncio.wait_for(told.some.wait(), 60)
            assert len(told.allocations) < ASKS, "killed too late to show anything"
            killed = core_of(system).pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            await asyncio.wait_for(told.all.wait(), 60)
            bus = await connect(system.url, "observer")
            try:
                seen = await query_nodes(bus, "killed")
                tree = await query_queues(bus, "killed")
            finally:
                await bus.close()
        assert core_of(system).restarts == 1
        assert core_of(system).pid != killed
    every_ask_once(told.allocations)
    rm_and_nodes_agree(told.allocations, {one.id: one for one in seen.partitions[0].nodes})
    assert tree.partitions[0].queues.allocated == {"vcore": ASKS, "memory": 10 * ASKS}
    assert not any(tree.partitions[0].queues.pending.values())


def assert_separate_processes(system: System) -> None:
    """Four services and nats-server, as `ps` shows them."""
    names = {p.name: " ".join(psutil.Process(p.pid).cmdline()) for p in system.processes if p.pid}
    assert len({p.pid for p in system.processes}) == 5
    assert "nats-server" in names["nats-server"]
    for service in ("config", "core", "events", "rmproxy"):
        assert f"run {service}" in names[service]


def core_of(system: System):
    return next(process for process in system.processes if process.name == "core")


def every_ask_once(allocations: list[si.Allocation]) -> None:
    by_key = Counter(allocation.allocationKey for allocation in allocations)
    assert by_key == Counter({f"ask-{i}": 1 for i in range(ASKS)})
    assert len({allocation.UUID for allocation in allocations}) == ASKS


def rm_and_nodes_agree(allocations: list[si.Allocation], seen) -> None:
    heard = Counter(allocation.nodeID for allocation in allocations)
    assert heard == Counter({node_id: one.allocations for node_id, one in seen.items()})
    for node_id, count in heard.items():
        assert seen[node_id].allocated == {"vcore": count, "memory": 10 * count}
        assert count <= SLOTS
