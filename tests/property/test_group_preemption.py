"""Laws of preemption for a group (semantics section 21): against all subsets of victims, and as it proceeds."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.cycle.preempt import plan
from remuda_core.cycle.preempt_groups import GroupPlan
from remuda_core.facts import Allocated, Ask, PreemptionStarted, ReleaseRequested
from remuda_core.index.partition import PartitionIndex
from remuda_core.limits import RELEASE_OVERDUE_MS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_core.state import Allocation, Partition, PendingAsk

from .topology_oracle import Cluster
from .world import RM, World

PARTITION = f"[{RM}]default"
RACKS = ("r", "s", "t")
PRIORITY = 2


class Case(NamedTuple):
    world: World
    pending: PendingAsk

    def __repr__(self) -> str:
        return "\n".join(str(fact) for _, facts in self.world.log for fact in facts)

    @property
    def partition(self) -> Partition:
        return self.world.state.partitions[PARTITION]

    def planned(self) -> GroupPlan | str:
        state = self.world.state
        found = plan(state, self.partition, self.pending, self.world.now_ms, index=self.partition_index)
        assert isinstance(found, GroupPlan | str)
        return found

    @property
    def partition_index(self) -> PartitionIndex:
        return self.world.core.index.of(self.world.state, self.partition)


@st.composite
def cases(draw: st.DrawFn, slices: bool = False) -> Case:
    """Racks with allocations of another queue, and a group of members that are alike, for none of whose racks there is
    room; or whose slices find no racks."""
    queues = (QueueSettings("a", guaranteed={"vcore": 100}, properties={"preemption.delay": "1ms"}), QueueSettings("b"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    sort = draw(st.sampled_from(("fair", "binpacking")))
    settings = PartitionSettings("default", root, sort, {"vcore": 1.0}, topology=(TopologyLevel("rack", "rack"),))
    world = World()
    world.handle(commands.Register(RM, Configuration("sum", (settings,))))
    world.handle(commands.SubmitApplication(PARTITION, "b", "root.b", "alice"))
    world.handle(commands.SubmitApplication(PARTITION, "a", "root.a", "alice"))
    for rack in RACKS[: draw(st.integers(1, 3))]:
        for number in range(draw(st.integers(1, 3))):
            node_id = f"{rack}{number}"
            amounts = draw(st.lists(st.sampled_from((1, 2, 2, 4)), max_size=3).filter(lambda some: sum(some) <= 4))
            occupied = {"vcore": draw(st.sampled_from((0, 0, 1)))} if sum(amounts) < 4 else {}
            world.handle(commands.UpdateNode(PARTITION, node_id, "CREATE", {"rack": rack}, {"vcore": 4}, occupied))
            for place, amount in enumerate(amounts):
                tags = {"si/requiredNode": node_id, "remuda/boundPreemptible": "true"}
                priority = draw(st.sampled_from((0, 0, 0, PRIORITY + 1)))
                mild = draw(st.sampled_from((True, True, False)))
                one = Ask(
                    PARTITION, "b", f"{node_id}-{place}", {"vcore": amount}, 1, priority, tags=tags,
                    originator=draw(st.booleans()) and not place, allow_preempt_self=mild, allow_preempt_other=False,
                )  # fmt: skip
                world.handle(commands.SubmitAsk(one))
    world.handle(commands.Schedule(1_000))
    assert not world.state.partitions[PARTITION].applications["b"].asks
    count, need = draw(st.integers(1, 4)), draw(st.sampled_from((1, 2, 3, 4)))
    tags = {"remuda/topology.required": "rack"}
    if slices:
        size = draw(st.integers(1, 3))
        count, tags = size * draw(st.integers(1, 3)), {"remuda/topology.slice": f"rack/{size}"}
    world.handle(
        commands.SubmitAsk(
            Ask(
                PARTITION,
                "a",
                "w",
                {"vcore": need},
                count,
                PRIORITY,
                tags=tags,
                allow_preempt_self=True,
                allow_preempt_other=True,
            )
        )
    )
    case = Case(world, world.state.partitions[PARTITION].applications["a"].asks["w"])
    assume(not (slices_fit(case, ()) if slices else any(fits(case, rack, ()) for rack in racks(case))))
    world.now_ms += 1_000
    return case


def racks(case: Case) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in case.partition.nodes.values():
        found.setdefault(node.attributes["rack"], []).append(node.id)
    return found


def fits(case: Case, rack: str, gone: tuple[Allocation, ...]) -> bool:
    """Whether all members fit, placed one after the other."""
    cluster = Cluster(case.partition)
    for victim in gone:
        cluster.free[victim.node.id]["vcore"] += victim.fact.resource["vcore"]
        cluster.left[victim.node.id] += 1
    return cluster.play(racks(case)[rack], [case.pending] * case.pending.free) is not None


def slices_fit(case: Case, gone: tuple[Allocation, ...]) -> bool:
    """Whether each slice finds a rack with room for all of its members."""
    cluster = Cluster(case.partition)
    for victim in gone:
        cluster.free[victim.node.id]["vcore"] += victim.fact.resource["vcore"]
        cluster.left[victim.node.id] += 1
    size = int(case.pending.ask.tags["remuda/topology.slice"].removeprefix("rack/"))
    room = sum(cluster.copies(node_ids, case.pending) // size for node_ids in racks(case).values())
    return room * size >= case.pending.free


def started_slices(case: Case) -> str:
    allocations = case.partition.applications["a"].allocations.values()
    return next(iter(allocations)).fact.tags.get("remuda/topology.slice", "rack/0").removeprefix("rack/")


def may_go(case: Case, rack: str) -> list[Allocation]:
    nodes = (case.partition.nodes[node_id] for node_id in racks(case)[rack])
    return [one for node in nodes for one in node.allocations.values() if one.fact.priority <= PRIORITY]


def cost(victims: tuple[Allocation, ...]) -> tuple[bool, bool, int]:
    opted_out = any(not victim.fact.allow_preempt_self for victim in victims)
    return (opted_out, any(victim.fact.originator for victim in victims), len(victims))


def subsets(some: list[Allocation]) -> list[tuple[Allocation, ...]]:
    return list(chain.from_iterable(combinations(some, size) for size in range(1, len(some) + 1)))


@given(case=cases())
def test_a_plan_frees_one_rack(case: Case) -> None:
    """The victims are in one rack, suffice, and each is needed. There is a plan if any victims suffice, and where all
    fill a node, none is better."""
    found = case.planned()
    possible = {rack for rack in racks(case) if fits(case, rack, tuple(may_go(case, rack)))}
    assert isinstance(found, GroupPlan) == bool(possible), f"{found}, possible in {possible}"
    if not isinstance(found, GroupPlan):
        return
    assert {node.attributes["rack"] for node in found.nodes} == {found.domain}
    assert {victim.node.attributes["rack"] for victim in found.victims} == {found.domain}
    assert all(victim in may_go(case, found.domain) for victim in found.victims)
    assert fits(case, found.domain, found.victims)
    for victim in found.victims:
        rest = tuple(one for one in found.victims if one is not victim)
        assert not fits(case, found.domain, rest), f"{victim.fact.uuid} is not needed"
    least = min(
        (*cost(some), rack) for rack in possible for some in subsets(may_go(case, rack)) if fits(case, rack, some)
    )
    got = (*cost(found.victims), found.domain)
    whole = all(one.fact.resource["vcore"] == 4 for one in case.partition.allocations.values())
    assert got >= least
    assert not whole or got == least, f"{got}, but {least} is possible"


@given(case=cases(slices=True))
def test_a_plan_frees_racks_for_all_slices(case: Case) -> None:
    """The victims suffice for all slices, and each is needed. There is a plan if any victims suffice, and where all
    fill a node, none has fewer."""
    found = case.planned()
    everybody = tuple(one for rack in racks(case) for one in may_go(case, rack))
    possible = slices_fit(case, everybody)
    assert isinstance(found, GroupPlan) == possible, f"{found}, possible: {possible}"
    if not isinstance(found, GroupPlan):
        return
    assert set(found.victims) <= set(everybody)
    assert slices_fit(case, found.victims)
    for victim in found.victims:
        rest = tuple(one for one in found.victims if one is not victim)
        assert not slices_fit(case, rest), f"{victim.fact.uuid} is not needed"
    if all(one.fact.resource["vcore"] == 4 for one in case.partition.allocations.values()) and len(everybody) <= 10:
        least = min(cost(some) for some in subsets(list(everybody)) if slices_fit(case, some))
        assert cost(found.victims) == least, f"{cost(found.victims)}, but {least} is possible"


@given(case=st.one_of(cases(), cases(slices=True)), data=st.data())
def test_a_group_starts_where_its_victims_were(case: Case, data: st.DataObject) -> None:
    """Nothing is placed on the nodes that are kept for it, and it starts as a whole in the pass after the last
    release. If a release does not come, all of the room is given back."""
    world = case.world
    facts = world.handle(commands.Schedule(1_000))
    started = next((fact for fact in facts if isinstance(fact, PreemptionStarted)), None)
    assume(started is not None)
    assert started is not None
    asked = [fact.uuid for fact in facts if isinstance(fact, ReleaseRequested)]
    assert sorted(asked) == sorted(started.uuids)
    late = Ask(PARTITION, "b", "late", {"vcore": 1}, 20, PRIORITY, allow_preempt_self=True, allow_preempt_other=False)
    world.handle(commands.SubmitAsk(late))
    order = data.draw(st.permutations(asked))
    comes = data.draw(st.integers(0, len(order)))
    for uuid in order[:comes]:
        facts = world.handle(commands.Schedule(1_000))
        assert not [f for f in facts if isinstance(f, Allocated) and f.node_id in started.nodes]
        world.handle(commands.ReleaseAllocation(PARTITION, "b", uuid, 4))
    if comes == len(order):
        facts = world.handle(commands.Schedule(1))
        placed = [fact.node_id for fact in facts if isinstance(fact, Allocated) and fact.application_id == "a"]
        assert len(placed) == sum(started.counts)
        if size := int(started_slices(case)):
            of_rack = Counter(case.partition.nodes[node_id].attributes["rack"] for node_id in placed)
            assert not any(count % size for count in of_rack.values()), f"slices of {size} are split: {of_rack}"
        assert set(placed) <= set(started.nodes)
        assert all(one.by_preemption for one in case.partition.applications["a"].allocations.values())
    else:
        world.now_ms += RELEASE_OVERDUE_MS
        world.handle(commands.Tick())
    assert not case.partition.preemptions
    assert not any(node.kept for node in case.partition.nodes.values())
    world.finish()


@st.composite
def shared_cases(draw: st.DrawFn) -> tuple[Case, int]:
    """Two blocks of two racks, and an application whose two groups share a block: one in a rack, and so many others of
    the same size."""
    queues = (QueueSettings("a", guaranteed={"vcore": 100}, properties={"preemption.delay": "1ms"}), QueueSettings("b"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    levels = (TopologyLevel("block", "block"), TopologyLevel("rack", "rack"))
    world = World()
    settings = PartitionSettings("default", root, topology=levels)
    world.handle(commands.Register(RM, Configuration("sum", (settings,))))
    world.handle(commands.SubmitApplication(PARTITION, "b", "root.b", "alice"))
    required = {"remuda/topology.required": "block"}
    world.handle(commands.SubmitApplication(PARTITION, "a", "root.a", "alice", tags=required))
    for rack in ("r", "s", "t", "u"):
        for number in range(draw(st.integers(1, 2))):
            node_id, attributes = f"{rack}{number}", {"block": "x" if rack in "rs" else "y", "rack": rack}
            world.handle(commands.UpdateNode(PARTITION, node_id, "CREATE", attributes, {"vcore": 4}))
            for place in range(draw(st.integers(0, 2))):
                tags = {"si/requiredNode": node_id, "remuda/boundPreemptible": "true"}
                priority = draw(st.sampled_from((0, 0, PRIORITY + 1)))
                one = Ask(
                    PARTITION,
                    "b",
                    f"{node_id}-{place}",
                    {"vcore": 2},
                    1,
                    priority,
                    tags=tags,
                    allow_preempt_self=True,
                    allow_preempt_other=False,
                )
                world.handle(commands.SubmitAsk(one))
    world.handle(commands.Schedule(1_000))
    need, others = draw(st.sampled_from((2, 4))), draw(st.integers(1, 3))
    tags = {"remuda/topology.required": "rack"}
    for key, count in (("v", draw(st.integers(1, 3))), ("w", others)):
        ask = Ask(
            PARTITION,
            "a",
            key,
            {"vcore": need},
            count,
            PRIORITY,
            tags=tags,
            allow_preempt_self=True,
            allow_preempt_other=True,
        )
        world.handle(commands.SubmitAsk(ask))
    world.now_ms += 1_000
    return Case(world, world.state.partitions[PARTITION].applications["a"].asks["v"]), others


@given(drawn=shared_cases())
def test_the_first_group_preempts_where_the_others_could_follow(drawn: tuple[Case, int]) -> None:
    """There is a plan if, without all who may go, one rack has room for the group and its block for all. The victims
    are in that rack, and suffice for the group."""
    case, others = drawn
    blocks = {rack: case.partition.nodes[nodes[0]].attributes["block"] for rack, nodes in racks(case).items()}
    assume(not any(fits(case, rack, ()) for rack in blocks))
    found = case.planned()

    def room_for_all(rack: str) -> bool:
        near = [one for one in blocks if blocks[one] == blocks[rack]]
        cluster = Cluster(case.partition)
        for victim in (one for of in near for one in may_go(case, of)):
            cluster.free[victim.node.id]["vcore"] += victim.fact.resource["vcore"]
        return cluster.copies([node for one in near for node in racks(case)[one]], case.pending) >= (
            case.pending.free + others
        )

    possible = {rack for rack in blocks if fits(case, rack, tuple(may_go(case, rack))) and room_for_all(rack)}
    assert isinstance(found, GroupPlan) == bool(possible), f"{found}, possible in {possible}"
    if isinstance(found, GroupPlan):
        (rack,) = {node.attributes["rack"] for node in found.nodes}
        assert rack in possible and found.domain == f"{blocks[rack]}/{rack}"
        assert set(found.victims) <= set(may_go(case, rack)) and fits(case, rack, found.victims)
