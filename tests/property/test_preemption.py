"""Laws of a preemption plan (semantics section 13), against a plain reading that looks at the state only."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.check import check, digest
from remuda_core.cycle.preempt import Plan, obstacle, plan
from remuda_core.facts import PREEMPTED_BY_SCHEDULER, Allocated, Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Allocation, Node, Partition, PendingAsk, Queue

from .world import RM, World

PARTITION = f"[{RM}]default"
LEAVES = ("root.a", "root.b.x", "root.b.y", "root.c")
NODES = ("n1", "n2", "n3")

amounts = st.fixed_dictionaries({"memory": st.integers(1, 6)}, optional={"vcore": st.integers(0, 4)})
guaranteed: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}), st.fixed_dictionaries({"memory": st.integers(0, 6)}, optional={"vcore": st.integers(0, 4)})
)
maxima: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}), st.just({}), st.just({}), st.fixed_dictionaries({"memory": st.integers(6, 25)})
)
policies = st.fixed_dictionaries(
    {},
    optional={
        "preemption.policy": st.sampled_from(("default", "default", "default", "fence", "disabled")),
        "priority.policy": st.sampled_from(("default", "default", "fence")),
        "priority.offset": st.sampled_from(("0", "1", "-2", "3")),
    },
)


class Case(NamedTuple):
    world: World
    pending: PendingAsk

    def __repr__(self) -> str:
        return "\n".join(str(fact) for _, facts in self.world.log for fact in facts)


@st.composite
def worlds(draw: st.DrawFn) -> Case:
    """Full nodes, and an ask that nothing but preemption can help."""

    def queue(name: str, *below: QueueSettings, own: dict[str, int] | None = None) -> QueueSettings:
        due = draw(guaranteed) if own is None else own
        return QueueSettings(
            name, bool(below), due, {} if own else draw(maxima), properties=draw(policies), queues=below
        )

    own = {"memory": draw(st.integers(6, 30))}
    queues = (queue("a", own=own), queue("b", queue("x"), queue("y")), queue("c"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    world = World(check_always=False)
    compatibility = draw(st.sampled_from(("none", "none", "yunikorn-1.4")))
    world.handle(commands.Register(RM, Configuration("sum", (PartitionSettings("default", root),), compatibility)))
    for leaf in LEAVES:
        world.handle(commands.SubmitApplication(PARTITION, leaf, leaf, "alice"))
    for node_id in NODES[: draw(st.integers(1, 3))]:
        running = draw(st.lists(allocations(node_id), min_size=1, max_size=6))
        taken = {name: sum(a.resource.get(name, 0) for a in running) for name in ("memory", "vcore")}
        free = draw(st.integers(0, 2))
        capacity = {name: amount + free for name, amount in taken.items()}
        numbered = tuple(
            Allocated(a.partition, a.application_id, f"k{i}", f"{node_id}-{i}", node_id, a.resource, a.priority, a.tags,
                      originator=a.originator, allow_preempt_self=a.allow_preempt_self)
            for i, a in enumerate(running)
        )  # fmt: skip
        world.handle(commands.UpdateNode(PARTITION, node_id, "CREATE", {}, capacity, {}, numbered))
    partition = world.state.partitions[PARTITION]
    ask = Ask(
        PARTITION, "root.a", "wanted", draw(st.one_of(amounts, st.just({"memory": 7}))), 1, draw(st.integers(0, 4)),
        allow_preempt_self=False, allow_preempt_other=True,
    )  # fmt: skip
    world.handle(commands.SubmitAsk(ask))
    return Case(world, partition.applications["root.a"].asks["wanted"])


def allocations(node_id: str) -> st.SearchStrategy[Allocated]:
    return st.builds(
        lambda app, resource, priority, own, originator, bound: Allocated(
            PARTITION, app, "", "", node_id, resource, priority,
            {"si/requiredNode": node_id} if bound else {}, originator=originator, allow_preempt_self=own,
        ),
        st.sampled_from((*LEAVES[1:], *LEAVES)),
        amounts,
        st.sampled_from((-1, 0, 0, 1, 2, 4)),
        st.sampled_from((True, True, True, False, None)),
        st.sampled_from((False, False, True)),
        st.sampled_from((False, False, False, True)),
    )  # fmt: skip


# A plain reading


def legal(world: World, pending: PendingAsk, victim: Allocation) -> bool:
    queue, own = victim.application.queue, pending.application.queue
    fence = next((q for q in own.path_to_root if prop(q, "preemption.policy") == "fence"), own.path_to_root[-1])
    common = next(q for q in own.path_to_root if q in queue.path_to_root)
    compatible = world.state.configuration is not None and world.state.configuration.compatibility == "yunikorn-1.4"
    return (
        queue is not own
        and fence in queue.path_to_root
        and not any(prop(q, "preemption.policy") == "disabled" for q in below(queue, common))
        and seen(victim.fact.priority, below(queue, common)) <= seen(pending.ask.priority, below(own, common))
        and not victim.releasing
        and not victim.fact.tags
        and not (compatible and not any(q.settings.guaranteed for q in queue.path_to_root))
    )


def prop(queue: Queue, name: str) -> str:
    return queue.settings.properties.get(name, "")


def below(queue: Queue, common: Queue) -> list[Queue]:
    """From the leaf up to the last queue below the common one."""
    return list(queue.path_to_root[: queue.path_to_root.index(common)])


def seen(priority: int, path: list[Queue]) -> int:
    for queue in path:
        offset = int(prop(queue, "priority.offset") or "0")
        priority = offset if prop(queue, "priority.policy") == "fence" else priority + offset
    return priority


def keeps_guaranteed(pending: PendingAsk, victims: list[Allocation]) -> bool:
    own = pending.application.queue
    for victim in victims:
        common = next(q for q in own.path_to_root if q in victim.application.queue.path_to_root)
        for queue in below(victim.application.queue, common):
            for name, due in queue.settings.guaranteed.items():
                gone = sum(v.fact.resource.get(name, 0) for v in victims if queue in v.application.queue.path_to_root)
                left = queue.allocated.get(name, 0) - queue.preempting.get(name, 0) - gone
                if victim.fact.resource.get(name) and left < due:
                    return False
    return True


def enough(pending: PendingAsk, node: Node, victims: list[Allocation]) -> bool:
    need = pending.ask.resource
    free = node.available()
    for victim in victims:
        if victim.node is node:
            for name, amount in victim.fact.resource.items():
                free[name] = free.get(name, 0) + amount
    if any(need.get(name, 0) > free.get(name, 0) for name in {*need, *free}):
        return False
    for queue in pending.application.queue.path_to_root:
        gone = [v for v in victims if queue in v.application.queue.path_to_root]
        for bounds in (queue.settings.max, queue.settings.guaranteed):
            for name, bound in bounds.items():
                used = queue.allocated.get(name, 0) - sum(v.fact.resource.get(name, 0) for v in gone)
                if need.get(name) and used + need[name] > bound:
                    return False
    return True


def partition_of(world: World) -> Partition:
    return world.state.partitions[PARTITION]


# The laws


@given(worlds())
def test_a_plan_is_legal_sufficient_and_minimal(drawn: Case) -> None:
    world, pending = drawn
    found = plan(world.state, partition_of(world), pending, world.now_ms)
    assume(isinstance(found, Plan))
    assert isinstance(found, Plan)
    victims = list(found.victims)
    assert victims and len(set(victims)) == len(victims)
    for victim in victims:
        assert legal(world, pending, victim), f"{victim.fact} may not be a victim"
    assert keeps_guaranteed(pending, victims), "a queue falls below its guaranteed"
    assert enough(pending, found.node, victims), "the ask does not fit when they are gone"
    for victim in victims:
        rest = [other for other in victims if other is not victim]
        assert not enough(pending, found.node, rest), f"{victim.fact} is not needed"


@given(worlds())
def test_where_one_victim_is_enough_there_is_a_plan(drawn: Case) -> None:
    """And no worse one."""
    world, pending = drawn
    partition = partition_of(world)
    single = [
        (not victim.fact.allow_preempt_self, victim.fact.originator, 1, node.id)
        for node in partition.nodes.values()
        for victim in node.allocations.values()
        if legal(world, pending, victim) and keeps_guaranteed(pending, [victim]) and enough(pending, node, [victim])
    ]
    nothing = [node for node in partition.nodes.values() if enough(pending, node, [])]
    assume(single and not nothing)
    found = plan(world.state, partition, pending, world.now_ms)
    assert isinstance(found, Plan), found


@given(worlds())
def test_a_plan_becomes_facts_and_the_ask_gets_its_place(drawn: Case) -> None:
    world, pending = drawn
    partition = partition_of(world)
    world.handle(commands.Schedule(1_000))
    assume("wanted" in pending.application.asks)
    world.now_ms += 60_000
    why = obstacle(world.state, partition, pending, world.now_ms)
    facts = world.handle(commands.Schedule(1_000))
    going = [a for a in partition.allocations.values() if a.releasing == PREEMPTED_BY_SCHEDULER]
    assert bool(going) == (not why), f"{why}\n{facts}"
    for victim in going:
        fact = victim.fact
        world.handle(commands.ReleaseAllocation(PARTITION, fact.application_id, fact.uuid, PREEMPTED_BY_SCHEDULER))
    if going:
        world.handle(commands.Schedule(1_000))
        assert "wanted" not in pending.application.asks, "what was preempted for it did not help it"
        assert not partition.preemptions
    check(world.state, world.core.index)
    assert digest(world.replayed().state) == digest(world.state)


# However many allocations it takes

counts = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4)


@given(st.integers(1, 4), st.integers(1, 4), counts, st.booleans())
def test_a_queue_reaches_its_guaranteed_within_two_intervals(
    nodes: int, places: int, asked: list[tuple[int, bool]], two_queues: bool
) -> None:
    """If the RM confirms releases at once: however many allocations that takes, asks for them and nodes."""
    due = {"memory": nodes * places // (2 if two_queues else 1)}
    own = [QueueSettings(name, guaranteed=due, properties={"preemption.delay": "1s"}) for name in ("b", "c")]
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"), *own))
    settings = PartitionSettings("default", root, preemption_interval_ms=15_000)
    world = World(check_always=False)
    world.handle(commands.Register(RM, Configuration("sum", (settings,))))
    for node in range(nodes):
        world.handle(commands.UpdateNode(PARTITION, f"n{node}", "CREATE", {}, {"memory": places}))
    for leaf in ("root.a", "root.b", "root.c"):
        world.handle(commands.SubmitApplication(PARTITION, leaf, leaf, "alice"))
    world.handle(commands.SubmitAsk(Ask(PARTITION, "root.a", "k", {"memory": 1}, nodes * places)))
    world.handle(commands.Schedule(1_000))
    wanted = {"root.b": 0, "root.c": 0}
    for number, (count, other) in enumerate(asked):
        leaf = "root.c" if two_queues and other else "root.b"
        wanted[leaf] += count
        ask = Ask(
            PARTITION, leaf, f"k{number}", {"memory": 1}, count, allow_preempt_self=False, allow_preempt_other=True
        )
        world.handle(commands.SubmitAsk(ask))
    partition = partition_of(world)
    for elapsed_ms in (1_000, 15_000, 15_000):
        world.now_ms += elapsed_ms
        world.handle(commands.Tick())
        while world.handle(commands.Schedule(1_000)):
            for victim in [a for a in partition.allocations.values() if a.releasing]:
                fact = victim.fact
                world.handle(commands.ReleaseAllocation(PARTITION, fact.application_id, fact.uuid, victim.releasing))
    for leaf, count in wanted.items():
        has = partition.queues[leaf].allocated.get("memory", 0)
        assert has == min(count, due["memory"]), f"{leaf} has {has} of {count}, guaranteed are {due['memory']}"
    world.finish()
