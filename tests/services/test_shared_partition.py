"""What an engine of shared hosts reads of a partition: the queries of a real core, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_bus.bus import Message
from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.shell.queries import Queries
from remuda_peloton.sharing import GuestAllocation, GuestAsk
from remuda_peloton.shell.partition import NotReady, Partition

NAME, NOW_MS = "[rm-1]default", 1_700_000_000_000
APPS = ("@peloton.default.a", "@peloton.default.b", "own")
NODES = ("n0", "n1")


class RunningCore:
    """`asked`: how often each query came. `meanwhile`: what happens before the next queries are answered."""

    max_payload = 1_000_000

    def __init__(self) -> None:
        self.core = Core("rm-1")
        below = (QueueSettings("peloton", parent=True, max={"vcore": 30}), QueueSettings("own"))
        leaf = QueueSettings("peloton", parent=True, max={"vcore": 30}, queues=(QueueSettings("a"), QueueSettings("b")))
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(leaf, below[1]))
        self.do(commands.Register("rm-1", Configuration("sum", (PartitionSettings("default", root),))))
        for name in NODES:
            self.do(commands.UpdateNode(NAME, name, "CREATE", {}, {"vcore": 10}))
        for name in APPS:
            self.do(commands.SubmitApplication(NAME, name, _queue(name), "peloton.default"))
        self.queries = Queries(self.core)
        self.asked: Counter[str] = Counter()
        self.meanwhile: list[Callable[[], None]] = []
        self.seq = 1

    def do(self, command: Any) -> None:
        self.core.handle(command, NOW_MS)
        self.seq = getattr(self, "seq", 0) + 1

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> Message:
        kind = subject.rpartition(".")[2]
        self.asked[kind] += 1
        if self.meanwhile and kind != "stats":
            self.meanwhile.pop(0)()
        answer = {**self.queries.kinds[kind](json.loads(payload)), "log_seq": self.seq}
        return Message(subject, msgspec.json.encode(answer))

    def held(self) -> tuple[set[GuestAsk], set[GuestAllocation]]:
        partition = self.core.state.partitions[NAME]
        guests = [one for name, one in partition.applications.items() if name.startswith("@")]
        return (
            {GuestAsk(key, one.id) for one in guests for key in one.asks},
            {
                GuestAllocation(uuid, a.fact.allocation_key, one.id, a.node.id, bool(a.releasing))
                for one in guests
                for uuid, a in one.allocations.items()
            },
        )


def _queue(application: str) -> str:
    return "root.own" if application == "own" else f"root.peloton.{application[-1]}"


def partition_of(core: RunningCore, queue: str = "root.peloton") -> Partition:
    return Partition(core, "rm-1", "default", queue, "default")  # type: ignore[arg-type]


async def test_only_what_has_changed_is_read() -> None:
    core = RunningCore()
    partition = partition_of(core)
    core.do(commands.SubmitAsk(Ask(NAME, APPS[0], "k", {"vcore": 1})))
    core.do(commands.Schedule(100))
    first = await partition.view()
    assert [one.key for one in first.held.allocations] == ["k"] and first.capacity[0] == 0.02
    assert {one["id"] for one in first.nodes} == set(NODES)
    core.asked.clear()
    assert await partition.view() is first and core.asked == {"stats": 1}
    core.do(commands.SubmitAsk(Ask(NAME, "own", "k", {"vcore": 1})))
    core.do(commands.Schedule(100))
    core.asked.clear()
    same = await partition.view()
    assert same.content == first.content and same.held is first.held and core.asked == {"stats": 1, "guests": 1}
    core.do(commands.SubmitAsk(Ask(NAME, APPS[1], "k", {"vcore": 100})))
    core.asked.clear()
    other = await partition.view()
    assert other.content == first.content + 1 and [one.key for one in other.held.asks] == ["k"]
    assert core.asked == {"stats": 1, "guests": 1, "asks": 1, "allocations": 1} and other.nodes is first.nodes
    core.do(commands.UpdateNode(NAME, "n1", "DRAIN_NODE", {}, {}))
    core.asked.clear()
    drained = await partition.view()
    assert [one["status"] for one in drained.nodes] == ["Schedulable", "Draining"]
    assert core.asked == {"stats": 1, "guests": 1, "nodes": 1}


async def test_what_has_changed_back_while_it_was_read_is_read_again() -> None:
    """The tag is the same as before, and what was read is not what is there."""
    core = RunningCore()
    partition = partition_of(core)
    await partition.view()
    core.do(commands.SubmitAsk(Ask(NAME, APPS[0], "k0", {"vcore": 100})))
    core.meanwhile = [
        lambda: None,
        lambda: core.do(commands.SubmitAsk(Ask(NAME, APPS[0], "k1", {"vcore": 100}))),
        lambda: core.do(commands.ReleaseAsk(NAME, APPS[0], "k1", 1)),
    ]
    assert {one.key for one in (await partition.view()).held.asks} == {"k0", "k1"}
    core.seq += 1
    assert {one.key for one in (await partition.view()).held.asks} == {"k0"}


@pytest.mark.parametrize("queue", ["root.own", "root.nowhere"])
async def test_a_queue_that_is_no_parent_is_named(queue: str) -> None:
    with pytest.raises(NotReady, match=f"queue {queue} is not there, or is a leaf"):
        await partition_of(RunningCore(), queue).view()


APP = st.sampled_from(APPS)
ASK = st.tuples(st.just("ask"), APP, st.integers(0, 5))
CHANGES = st.one_of(
    ASK, ASK, st.tuples(st.just("schedule")), st.tuples(st.just("withdraw"), APP, st.integers(0, 5)),
    st.tuples(st.just("release"), APP), st.tuples(st.just("drain"), st.sampled_from(NODES)),
    st.tuples(st.just("back"), st.sampled_from(NODES)),
)  # fmt: skip


def change(core: RunningCore, step: tuple[Any, ...]) -> None:
    match step:
        case ("ask", app, number):
            core.do(commands.SubmitAsk(Ask(NAME, app, f"k{number}", {"vcore": 1 + number})))
        case ("schedule",):
            core.do(commands.Schedule(100))
        case ("withdraw", app, number):
            core.do(commands.ReleaseAsk(NAME, app, f"k{number}", 1))
        case ("release", app):
            for uuid in list(core.core.state.partitions[NAME].applications[app].allocations)[:1]:
                core.do(commands.ReleaseAllocation(NAME, app, uuid, 1))
        case ("drain", name):
            core.do(commands.UpdateNode(NAME, name, "DRAIN_NODE", {}, {}))
        case ("back", name):
            core.do(commands.UpdateNode(NAME, name, "DRAIN_TO_SCHEDULABLE", {}, {}))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(CHANGES, max_size=4), st.lists(CHANGES, max_size=4)), max_size=6))
def test_what_is_read_is_what_is_there(rounds: list[Any]) -> None:
    """Also of what has changed, and changed back, while it was read: at the next look at the latest."""
    asyncio.run(_played(rounds))


async def _played(rounds: list[Any]) -> None:
    core = RunningCore()
    partition = partition_of(core)
    for before, meanwhile in rounds:
        for step in before:
            change(core, step)
        core.meanwhile = [lambda step=step: change(core, step) for step in meanwhile]  # type: ignore[misc]
        await partition.view()
        core.meanwhile = []
        core.seq += 1
        view = await partition.view()
        assert (set(view.held.asks), set(view.held.allocations)) == core.held()
        there = core.core.state.partitions[NAME].nodes
        assert {one["id"]: one["status"] for one in view.nodes} == {
            name: "Draining" if node.draining else "Schedulable" for name, node in there.items()
        }
