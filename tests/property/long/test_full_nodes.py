"""A node takes only so many allocations, whatever room it has, and is served again when it has fewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda_core.commands import RecoverAllocation, ReleaseAllocation, Schedule, Tick, UpdateNode
from remuda_core.facts import Allocated, AllocationRejected, AskWaiting, NodeRejected
from remuda_core.settings import QueueSettings
from tests.property.bounds import at_most_on_a_node
from tests.property.storm import Storm
from tests.property.test_laws import PARTITION, ask, world_of


@given(seed=st.integers(0, 10**6), most=st.sampled_from((0, 1, 2, 2, 4)))
def test_no_node_takes_more_and_all_else_is_as_it_was(seed: int, most: int) -> None:
    """Every step is compared with the oracle, which counts anew."""
    with at_most_on_a_node(most):
        for _ in Storm(seed).run(80):
            pass


@given(nodes=st.integers(1, 5), most=st.integers(1, 6), limit=st.integers(1, 30))
def test_as_many_as_all_nodes_may_have(nodes: int, most: int, limit: int) -> None:
    """In however many passes; a release makes one place."""
    with at_most_on_a_node(most):
        world = world_of(QueueSettings("a"), nodes=nodes, vcore=1_000)
        ask(world, "a", 1, 100)
        while any(isinstance(fact, Allocated) for fact in world.schedule(limit)):
            pass
        partition = world.state.partitions[PARTITION]
        assert {len(node.allocations) for node in partition.nodes.values()} == {most}
        one = next(iter(partition.allocations.values())).fact
        world.handle(ReleaseAllocation(PARTITION, "app-a", one.uuid))
        placed = [fact.node_id for fact in world.schedule(limit) if isinstance(fact, Allocated)]
        assert placed == [one.node_id]
        world.schedule(limit)
        world.now_ms += 10_000
        [waiting] = [fact for fact in world.handle(Tick()) if isinstance(fact, AskWaiting)]
        assert waiting.constraint == "full_node" and f"allowed on one node, {most}, are on n0" in waiting.reason


def test_what_an_rm_reports_beyond_it_is_refused() -> None:
    with at_most_on_a_node(2):
        world = world_of(QueueSettings("a"), nodes=1, vcore=1_000)
        ask(world, "a", 1, 1)
        world.handle(Schedule(1))

        def reported(number: int, node_id: str) -> Allocated:
            return Allocated(PARTITION, "app-a", f"k{number}", f"uuid-{number}", node_id, {"vcore": 1})

        assert world.handle(RecoverAllocation(reported(1, "n0")))[-1:] != []
        [refused] = world.handle(RecoverAllocation(reported(2, "n0")))
        assert isinstance(refused, AllocationRejected) and "2 allocations, expected at most 2" in refused.reason
        several = tuple(reported(number, "n1") for number in (3, 4, 5))
        [node] = world.handle(
            UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 9}, existing_allocations=several)
        )
        assert isinstance(node, NodeRejected) and "existingAllocations" in node.reason
