"""An RM that declares predicates is asked about every node, over a real nats-server, with every service there is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.local.system import Layout, System
from remuda.show.dump import state_of
from remuda_bus import subjects
from remuda_bus.nats import connect
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import READY_S
from tests.system.running import QUEUES, TWO_QUEUES


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with System(Layout(tmp_path, log_level="warning")) as system:
        await system.ready(READY_S)
        yield system


class Placed:
    """Where the RM was told to start what."""

    def __init__(self, rm: ResourceManager, wanted: int) -> None:
        self.on: dict[str, str] = {}
        self.enough = asyncio.Event()
        self._wanted = wanted
        rm.on_allocation(self._told)

    def expect(self, wanted: int) -> None:
        self._wanted = wanted
        self.enough.clear()

    async def _told(self, response: si.AllocationResponse) -> None:
        for allocation in response.new:
            assert allocation.allocationKey not in self.on, f"{allocation.allocationKey} twice"
            self.on[allocation.allocationKey] = allocation.nodeID
        if len(self.on) >= self._wanted:
            self.enough.set()


async def test_what_is_refused_goes_elsewhere(system: System) -> None:
    rm = ResourceManager.connect(system.url, "rm-1", config=QUEUES)
    asked: Counter[str] = Counter()

    @rm.on_predicates
    async def may_start(question: si.PredicatesArgs) -> str | None:
        asked[question.allocationKey] += 1
        assert question.allocate
        odd = int(question.allocationKey) % 2
        return None if odd == int(question.nodeID[1:]) % 2 else f"{question.nodeID} is not for it"

    async with rm:
        placed = Placed(rm, 200)
        await rm.report_nodes(node(f"n{i}", vcore=1_000) for i in range(10))
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        await rm.ask(ask("app-1", str(i), vcore=10) for i in range(200))
        await asyncio.wait_for(placed.enough.wait(), 30)
    assert all(int(key) % 2 == int(node_id[1:]) % 2 for key, node_id in placed.on.items())
    assert set(asked) == set(placed.on)
    assert max(asked.values()) <= 6, "five nodes are wrong for it, and none is asked about twice"
    with pytest.raises(RuntimeError, match="before connecting"):
        async with ResourceManager.connect(system.url, "rm-2") as late:
            late.on_predicates(lambda _: None)


async def test_any_client_may_answer(system: System) -> None:
    """No handler in the SDK, but a subscription by hand: an empty reply is a yes, the error header a no."""
    bus = await connect(system.url, "by-hand")
    heard = []

    async def answer(message):
        question = si.PredicatesArgs.FromString(message.data)
        heard.append((question.nodeID, message.headers[subjects.APPLICATION], message.headers[subjects.PARTITION]))
        headers = {subjects.SERVICE_ERROR: "no", subjects.SERVICE_ERROR_CODE: "409"}
        await client.publish(message.reply, headers=headers if question.nodeID == "n1" else None)

    client = bus._connection.client
    await client.subscribe("si.v1.rm.rm-1.predicates", cb=answer)
    async with ResourceManager.connect(system.url, "rm-1", config=QUEUES, register=False) as rm:
        rm._registration.extraConfig["predicates"] = "true"
        await rm.register()
        placed = Placed(rm, 1)
        await rm.report_nodes([node("n1", vcore=4), node("n2", vcore=4)])
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        await rm.ask([ask("app-1", "k1", vcore=1)])
        await asyncio.wait_for(placed.enough.wait(), 30)
    await bus.close()
    assert placed.on == {"k1": "n2"}
    assert heard == [("n1", "app-1", "default"), ("n2", "app-1", "default")]


async def test_preemption_is_confirmed_too(system: System) -> None:
    rm = ResourceManager.connect(system.url, "rm-1", config=TWO_QUEUES)
    asked: list[tuple[str, list[str]]] = []

    @rm.on_preemption_predicates
    def would_start(question: si.PreemptionPredicatesArgs) -> str | None:
        asked.append((question.nodeID, sorted(question.preemptAllocationKeys)))
        return "no disk" if question.nodeID == "n1" else None

    async with rm:
        placed = Placed(rm, 4)
        await rm.report_nodes([node("n1", vcore=4_000), node("n2", vcore=4_000)])
        await rm.submit(application("app-a", queue="root.a", user="u"), application("app-b", queue="root.b", user="u"))
        await rm.ask([ask("app-a", f"a{i}", vcore=2_000) for i in range(4)])
        await asyncio.wait_for(placed.enough.wait(), 30)
        placed.expect(5)
        await rm.ask([ask("app-b", "b", vcore=4_000, preemption=si.PreemptionPolicy(allowPreemptOther=True))])
        await asyncio.wait_for(placed.enough.wait(), 30)
    on_n1, on_n2 = (
        sorted(key for key, node_id in placed.on.items() if node_id == n and key != "b") for n in ("n1", "n2")
    )
    assert asked == [("n1", on_n1), ("n2", on_n2)]
    assert placed.on["b"] == "n2"


async def test_core_and_rmproxy_may_die_while_the_rm_thinks(system: System) -> None:
    rm = ResourceManager.connect(system.url, "rm-1", config=QUEUES)
    thinking = asyncio.Event()

    @rm.on_predicates
    async def may_start(_: si.PredicatesArgs) -> None:
        thinking.set()
        await asyncio.sleep(0.05)

    async with rm:
        placed = Placed(rm, 300)
        await rm.report_nodes([node("n1", vcore=1_000), node("n2", vcore=1_000)])
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        for victim in ("core", "rmproxy"):
            thinking.clear()
            await rm.ask(ask("app-1", f"{victim}-{i}", vcore=1) for i in range(150))
            await asyncio.wait_for(thinking.wait(), 30)
            process = next(process for process in system.processes if process.name == victim)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
        # The question of the killed rmproxy is given up after five seconds, and asked anew.
        await asyncio.wait_for(placed.enough.wait(), 90)
    assert len(placed.on) == 300


async def test_one_question_serves_many_asks_and_nodes(system: System) -> None:
    rm = ResourceManager.connect(system.url, "rm-1", config=QUEUES)
    asked: list[predicates_pb2.BatchPredicatesRequest] = []

    @rm.on_batch_predicates
    async def verdicts(request: predicates_pb2.BatchPredicatesRequest) -> list[predicates_pb2.NodeVerdict]:
        asked.append(request)
        odd = request.predicate_class == "odd"
        return [
            predicates_pb2.NodeVerdict(node_id=name, accepted=int(name[1:]) % 2 == odd, reason="not for it")
            for name in request.node_ids
        ]

    async with rm:
        placed = Placed(rm, 200)
        await rm.report_nodes(node(f"n{i}", vcore=1_000) for i in range(100))
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        tags = [{"remuda/predicateClass": "odd"}, {"zone": "even"}]
        await rm.ask(ask("app-1", str(i), vcore=10, tags=tags[(i + 1) % 2]) for i in range(200))
        await asyncio.wait_for(placed.enough.wait(), 30)
    assert all(int(key) % 2 == int(node_id[1:]) % 2 for key, node_id in placed.on.items())
    assert len(asked) == 2, "one question for each class"
    for request in asked:
        assert (request.rm_id, request.partition, len(request.node_ids)) == ("rm-1", "default", 100)
        assert request.application_id == "app-1" and request.resource.resources["vcore"].value == 10
        assert request.predicate_class == "odd" or request.tags == {"zone": "even"}


async def test_states_of_scheduler_and_rm_are_one_document(system: System) -> None:
    rm = ResourceManager.connect(system.url, "rm-1", config=QUEUES)
    rm.on_state_dump(lambda: json.dumps({"pods": 3}))
    async with rm:
        placed = Placed(rm, 1)
        await rm.report_nodes([node("n1", vcore=10)])
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        await rm.ask([ask("app-1", "k1", vcore=10), ask("app-1", "k2", vcore=10)])
        await asyncio.wait_for(placed.enough.wait(), 30)
        found = await state_of(system.url, "rm-1")
    assert found["resource_manager"] == {"pods": 3}
    scheduler = found["scheduler"]
    assert [one["id"] for one in scheduler["nodes"]] == ["n1"]
    assert [one["key"] for one in scheduler["allocations"]] == ["k1"]
    assert [one["key"] for one in scheduler["asks"]] == ["k2"]
    assert scheduler["applications"][0]["id"] == "app-1" and scheduler["queues"] and scheduler["stats"]
    left = await state_of(system.url, "rm-1")
    assert left["resource_manager"] is None and "not connected" in left["problem"]
