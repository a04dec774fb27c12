"""The law of quota preemption (semantics section 13): once the delays are over and releases are confirmed, no queue is
above its maximum by allocations that could be preempted, and nothing was preempted for another reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands, facts
from remuda_core.decide.quota import delay_of, quota_victims
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Partition, Queue

from .world import RM, World

PARTITION = f"[{RM}]default"
LEAVES = ("root.p.a", "root.p.b", "root.c")
DELAY_MS = 5_000
maxima: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}), st.fixed_dictionaries({"memory": st.integers(0, 12)})
)
guaranteed: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}), st.fixed_dictionaries({"memory": st.integers(0, 4)})
)
policies = st.sampled_from(({}, {}, {"preemption.policy": "disabled"}))
asks = st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=12)


@st.composite
def trees(draw: st.DrawFn) -> QueueSettings:
    def queue(name: str, *below: QueueSettings) -> QueueSettings:
        own = {"quota.preemption.delay": f"{draw(st.sampled_from((0, DELAY_MS, DELAY_MS)))}ms", **draw(policies)}
        limits = (draw(guaranteed) if not below else {}, draw(maxima))
        return QueueSettings(name, bool(below), *limits, properties=own, queues=below)

    return QueueSettings("root", True, submit_acl="*", queues=(queue("p", queue("a"), queue("b")), queue("c")))


@given(first=trees(), second=trees(), enabled=st.booleans(), wanted=asks, slow=st.booleans())
def test_what_is_above_a_maximum_goes_and_nothing_else(
    first: QueueSettings, second: QueueSettings, enabled: bool, wanted: list[tuple[str, int, int, bool]], slow: bool
) -> None:
    """`slow`: the RM confirms releases only after several minutes."""
    world = World()
    world.handle(commands.Register(RM, configuration("first", first, enabled)))
    world.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"memory": 100}, {}))
    for leaf in LEAVES:
        world.handle(commands.SubmitApplication(PARTITION, leaf, leaf, "alice"))
    for number, (leaf, memory, priority, own) in enumerate(wanted):
        ask = facts.Ask(PARTITION, leaf, f"k{number}", {"memory": memory}, 1, priority, allow_preempt_self=own,
                        allow_preempt_other=False)  # fmt: skip
        world.handle(commands.SubmitAsk(ask))
    world.handle(commands.Schedule(100))
    world.handle(commands.Configure(configuration("second", second, enabled)))
    partition = world.state.partitions[PARTITION]
    over = {path: excess(partition, queue) for path, queue in partition.queues.items()}
    tick(world, DELAY_MS - 1)
    assert not requested(world), "nothing goes before the delay"
    for _ in range(4):
        tick(world, 60_000)
        for uuid in () if slow else [uuid for uuid, a in partition.allocations.items() if a.releasing]:
            world.handle(commands.ReleaseAllocation(PARTITION, "", uuid, facts.PREEMPTED_BY_SCHEDULER))
    for path, queue in partition.queues.items():
        if delay_of(partition, queue):
            assert not quota_victims(queue).allocations, f"{path} keeps what it could give back"
    gone = requested(world)
    assert len(gone) == len(set(gone)), "nothing is asked for twice"
    for leaf, memory in gone.values():
        above = partition.queues[leaf].path_to_root
        assert any(over[queue.path] for queue in above), (
            f"{leaf} loses {memory}, and no queue above it has to give back"
        )
    for path, queue in partition.queues.items():
        lost = [memory for leaf, memory in gone.values() if queue in partition.queues[leaf].path_to_root]
        if lost and not any(over[other] for other in over if other != path):
            assert sum(lost) - over[path] < min(lost), f"{path} loses more than it needs to"


def configuration(checksum: str, root: QueueSettings, enabled: bool) -> Configuration:
    return Configuration(checksum, (PartitionSettings("default", root, quota_preemption_enabled=enabled),))


def excess(partition: Partition, queue: Queue) -> int:
    """What the queue has to give back of the only resource."""
    most = queue.settings.max.get("memory")
    used = queue.allocated.get("memory", 0)
    return max(0, used - most) if most is not None and delay_of(partition, queue) else 0


def requested(world: World) -> dict[str, tuple[str, int]]:
    """(leaf, memory) of each allocation that the RM was asked to release: applications are named like their leaves."""
    placed = {
        f.uuid: (f.application_id, f.resource["memory"])
        for _, some in world.log
        for f in some
        if isinstance(f, facts.Allocated)
    }
    return {f.uuid: placed[f.uuid] for _, some in world.log for f in some if isinstance(f, facts.ReleaseRequested)}


def tick(world: World, ms: int) -> None:
    world.now_ms += ms
    world.handle(commands.Tick())
