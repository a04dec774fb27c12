"""Laws of what runs on a node when the RM reports it (semantics section 14): none of it is lost, and nothing is placed
on top of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.facts import Allocated
from remuda_core.rules.resource import total_of
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Node

from .world import RM, World

PARTITION = f"[{RM}]default"
FORCED = {"application.create.force": "true"}
APPLICATIONS = ("app-1", "app-2", "unknown")

reported = st.builds(
    lambda application, key, uuid, vcore, memory: Allocated(
        PARTITION, application, key, uuid, "", {"vcore": vcore, "memory": memory}
    ),
    st.sampled_from(APPLICATIONS),
    st.sampled_from(("k1", "k2", "")),
    st.sampled_from(("u1", "u2", "u3", "u4", "")),
    st.integers(-1, 3),
    st.integers(0, 2),
)
reports = st.lists(reported, max_size=6)
steps = st.lists(
    st.one_of(
        st.builds(
            lambda application, forced, queue: commands.SubmitApplication(
                PARTITION, application, queue, "alice", tags=FORCED if forced else {}, placeholder_ask={"vcore": 9}
            ),
            st.sampled_from(APPLICATIONS),
            st.booleans(),
            st.sampled_from(("root.a", "root.fair", "root.gone")),
        ),
        st.builds(
            lambda application, uuid: commands.ReleaseAllocation(PARTITION, application, uuid),
            st.sampled_from((*APPLICATIONS, "")),
            st.sampled_from(("u1", "u2", "u3", "u4", "")),
        ),
        st.builds(
            lambda application: commands.RemoveApplication(PARTITION, application), st.sampled_from(APPLICATIONS)
        ),
        st.builds(
            lambda one, node: commands.RecoverAllocation(
                Allocated(PARTITION, one[0], one[1], one[2], node, {"vcore": 1})
            ),
            st.tuples(
                st.sampled_from(APPLICATIONS), st.sampled_from(("k1", "k2")), st.sampled_from(("u1", "u4", "u5"))
            ),
            st.sampled_from(("n0", "n1")),
        ),
        st.builds(
            lambda node, vcore: commands.UpdateNode(PARTITION, node, "UPDATE", occupied={"vcore": vcore}),
            st.sampled_from(("n0", "n1")),
            st.integers(0, 2),
        ),
        st.builds(lambda node: commands.UpdateNode(PARTITION, node, "DECOMISSION"), st.sampled_from(("n0", "n1"))),
    ),
    max_size=8,
)


def new_world() -> World:
    world = World()
    queues = (
        QueueSettings("a", max={"vcore": 2}),
        QueueSettings("fair", properties={"application.sort.policy": "fair"}),
    )
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    world.handle(commands.Register(RM, Configuration("sum", (PartitionSettings("default", root),))))
    world.handle(commands.SubmitApplication(PARTITION, "app-1", "root.a", "alice"))
    return world


def node_of(world: World, node_id: str) -> Node:
    return world.state.partitions[PARTITION].nodes[node_id]


def valid(one: Allocated) -> dict[str, int]:
    return {name: amount for name, amount in one.resource.items() if amount > 0}


@given(st.tuples(reports, reports))
def test_what_is_reported_with_a_node_takes_its_room_whatever_is_wrong_with_it(
    drawn: tuple[list[Allocated], ...],
) -> None:
    world = new_world()
    capacity = {"vcore": 20, "memory": 20}
    for number, running in enumerate(drawn):
        world.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", {}, capacity, {"vcore": 1}, tuple(running)))
        taken = total_of([{"vcore": 1}, *map(valid, running)])
        free = {name: amount - taken.get(name, 0) for name, amount in capacity.items()}
        node = node_of(world, f"n{number}")
        assert node.available() == free
        assert len(node.allocations) + len(node.rejected) == len(running)
    world.finish()


@given(st.tuples(reports, reports), steps)
def test_whatever_follows_the_state_stays_whole(
    drawn: tuple[list[Allocated], ...], then: list[commands.Command]
) -> None:
    """And nothing is occupied any more when all of it was released."""
    world = new_world()
    for number, running in enumerate(drawn):
        world.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", {}, {"vcore": 20}, {}, tuple(running)))
    for command in then:
        world.handle(command)
    partition = world.state.partitions[PARTITION]
    for application in APPLICATIONS:
        world.handle(commands.ReleaseAllocation(PARTITION, application, ""))
    for uuid in ("u1", "u2", "u3", "u4", "u5"):
        world.handle(commands.ReleaseAllocation(PARTITION, "", uuid))
    for application in APPLICATIONS:
        world.handle(commands.ReleaseAllocation(PARTITION, application, ""))
    assert not partition.allocations and not partition.rejected_allocations.count
    for node in partition.nodes.values():
        assert not node.rejected and node.occupied.get("memory", 0) == 0 and node.occupied.get("vcore", 0) <= 2
    world.finish()
