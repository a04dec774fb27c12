"""Laws of scheduling that hold whatever the numbers are."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.facts import (
    Allocated,
    AllocationRecovered,
    AllocationReleased,
    ApplicationAccepted,
    ApplicationStateChanged,
    Ask,
    AskOutstanding,
    AskWaiting,
    Fact,
    GuestKept,
    PlaceholderReplaced,
)
from remuda_core.rules.resource import Resource, items_of, total_of
from remuda_core.settings import Configuration, Limit, PartitionSettings, QueueSettings

from .storm import Storm, apply
from .world import RM, World

PARTITION = f"[{RM}]default"


def world_of(*queues: QueueSettings, nodes: int, vcore: int, node_sort: str = "fair") -> World:
    world = World()
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root, node_sort),))))
    for number in range(nodes):
        world.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", capacity={"vcore": vcore}))
    return world


def ask(world: World, queue: str, size: int, count: int) -> None:
    world.handle(commands.SubmitApplication(PARTITION, f"app-{queue}", f"root.{queue}", "alice"))
    world.handle(commands.SubmitAsk(Ask(PARTITION, f"app-{queue}", "k", {"vcore": size}, count)))


def used(world: World, queue: str) -> int:
    return world.state.partitions[PARTITION].queues[f"root.{queue}"].allocated["vcore"]


@given(
    nodes=st.integers(1, 8),
    vcore=st.integers(1, 20),
    due=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    limit=st.integers(1, 30),
)
def test_two_saturated_queues_end_within_one_ask_of_what_is_due(
    nodes: int, vcore: int, due: tuple[int, int], limit: int
) -> None:
    """Each as if the other took its part exactly; in however many cycles."""
    guaranteed = [
        QueueSettings(name, guaranteed={"vcore": 10 * amount}) for name, amount in zip("ab", due, strict=True)
    ]
    world = world_of(*guaranteed, nodes=nodes, vcore=vcore)
    ask(world, "a", 1, nodes * vcore)
    ask(world, "b", 1, nodes * vcore)
    while any(isinstance(fact, Allocated) for fact in world.schedule(limit)):
        pass
    total = nodes * vcore
    assert used(world, "a") + used(world, "b") == total
    assert abs(used(world, "a") - total * due[0] / sum(due)) <= 1


@pytest.mark.parametrize("node_sort", ["fair", "binpacking"])
def test_one_to_three(node_sort: str) -> None:
    queues = QueueSettings("a", guaranteed={"vcore": 100}), QueueSettings("b", guaranteed={"vcore": 300})
    world = world_of(*queues, nodes=50, vcore=8, node_sort=node_sort)
    ask(world, "a", 1, 1_000)
    ask(world, "b", 1, 1_000)
    world.schedule(10_000)
    assert (used(world, "a"), used(world, "b")) == (100, 300)


@given(
    asked=st.lists(st.tuples(st.sampled_from(("alice", "bob", "carol")), st.integers(1, 9)), min_size=1, max_size=8),
    each=st.integers(1, 9),
    together=st.integers(1, 20),
    limit=st.integers(1, 7),
)
def test_users_and_groups_get_what_their_limits_allow_and_no_more(
    asked: list[tuple[str, int]], each: int, together: int, limit: int
) -> None:
    """In however many cycles; room and queues leave enough for everyone."""
    limits = Limit(("*",), (), {"vcore": each}), Limit((), ("dev",), {"vcore": together})
    world = world_of(QueueSettings("a", limits=limits), nodes=3, vcore=100)
    for number, (user, count) in enumerate(asked):
        world.handle(commands.SubmitApplication(PARTITION, f"app-{number}", "root.a", user, ("dev",)))
        world.handle(commands.SubmitAsk(Ask(PARTITION, f"app-{number}", "k", {"vcore": 1}, count)))
    while any(isinstance(fact, Allocated) for fact in world.schedule(limit)):
        pass
    wanted = {user: min(each, sum(n for u, n in asked if u == user)) for user, _ in asked}
    applications = world.state.partitions[PARTITION].applications.values()
    held = {user: sum(a.allocated["vcore"] for a in applications if a.user == user) for user in wanted}
    assert sum(held.values()) == min(together, sum(wanted.values()))
    assert all(held[user] <= wanted[user] for user in wanted)


@given(seed=st.integers(0, 10**6))
def test_the_same_commands_lead_to_the_same_facts(seed: int) -> None:
    day = Storm(seed)
    done = list(day.run(60))
    again = World(check_always=False)
    for command in done:
        apply(again, command)
    assert again.log == day.world.log


@given(seed=st.integers(0, 10**6), pieces=st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_many_small_cycles_are_one_large_one(seed: int, pieces: list[int]) -> None:
    day = Storm(seed)
    done = list(day.run(40))
    other = World(check_always=False)
    for command in done:
        apply(other, command)
    large = allocations(day.world.schedule(sum(pieces)))
    small = [made for limit in pieces for made in allocations(other.schedule(limit))]
    # A cycle turns to the next partition when the first has nothing left: only with one are the orders the same.
    if len(day.world.state.partitions) == 1:
        assert small == large


def allocations(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, Allocated)]


@given(seed=st.integers(0, 10**6))
def test_time_goes_on_after_a_restart_as_it_would_have(seed: int) -> None:
    """All timeouts come at the same time. (The reason why an ask waits may be reported once more.)"""
    day = Storm(seed)
    list(day.run(60))
    world = day.world
    restarted = world.replayed(over_the_wire=True)
    for jump_ms in (1_000, 1_000, 4_000, 30_000, 60_000, 300_000, 900_000, 3 * 86_400_000):
        world.now_ms += jump_ms
        assert what_ended(restarted.handle(commands.Tick(), world.now_ms)) == what_ended(world.handle(commands.Tick()))


def what_ended(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not isinstance(fact, AskWaiting | AskOutstanding)]


@given(seed=st.integers(0, 10**6))
def test_what_is_released_is_as_if_it_had_never_been_taken(seed: int) -> None:
    """All applications removed: nothing is allocated, pending or counted any more."""
    day = Storm(seed)
    list(day.run(60))
    world = day.world
    for partition in list(world.state.partitions.values()):
        for app_id in list(partition.applications):
            world.handle(commands.RemoveApplication(partition.name, app_id))
        assert not partition.allocations
        for queue in partition.queues.values():
            assert not any(queue.allocated.values()) and not any(queue.pending.values()) and not queue.priorities
        for node in partition.nodes.values():
            assert not any(node.allocated.values())
    assert not allocations(world.schedule(100))


@dataclass
class Life:
    """The facts of a log about an application. A resuming one needs no placeholders any more."""

    due: Resource
    state: str = "New"
    placeholders: dict[str, Resource] = field(default_factory=dict)
    real: set[str] = field(default_factory=set)

    def leaves_accepted_with(self, allocation: Allocated, takes_a_place: bool) -> bool:
        """A replacement is the second when it finds another real allocation."""
        if takes_a_place:
            return bool(self.real)
        if not allocation.placeholder:
            return True
        held = total_of((*self.placeholders.values(), allocation.resource))
        return any(self.due.values()) and items_of(held) == items_of(self.due)

    def has(self, allocation: Allocated) -> None:
        if allocation.placeholder:
            self.placeholders[allocation.uuid] = allocation.resource
        else:
            self.real.add(allocation.uuid)

    def has_no_more(self, uuid: str) -> None:
        self.placeholders.pop(uuid, None)
        self.real.discard(uuid)


@pytest.mark.parametrize("seed", range(40))
def test_an_application_starts_with_the_last_placeholder_a_second_replacement_or_what_takes_no_place(seed: int) -> None:
    day = Storm(seed)
    for _ in day.run(150):
        pass
    check_starts(day.world)


@pytest.mark.parametrize("seed", range(8))
def test_a_gang_that_is_not_complete_starts_with_a_second_replacement_or_what_takes_no_place(seed: int) -> None:
    """A rare case in storms: placeholders are replaced while others are still pending."""
    random, world = Random(seed), world_of(QueueSettings("a"), nodes=2, vcore=50)
    for number in range(4):
        app_id, due = f"app-{number}", random.randint(3, 6)
        submit = commands.SubmitApplication(PARTITION, app_id, "root.a", "alice", placeholder_ask={"vcore": due})
        world.handle(submit)
        for step in range(due + 3):
            # Two of them come first, so that some place is there to be taken.
            placeholder = step < 2 or random.random() < 0.2
            group = "tg" if placeholder or random.random() < 0.9 else ""
            wanted = Ask(PARTITION, app_id, f"k{step}", {"vcore": 1}, task_group=group, placeholder=placeholder)
            world.handle(commands.SubmitAsk(wanted))
            world.schedule(100)
            for allocation in list(world.state.partitions[PARTITION].allocations.values()):
                fact, why = allocation.fact, allocation.releasing
                if why or (not fact.placeholder and random.random() < 0.1):
                    world.handle(commands.ReleaseAllocation(PARTITION, fact.application_id, fact.uuid, why))
    check_starts(world)


def check_starts(world: World) -> None:
    """An application leaves Accepted to start with what its life says, and with nothing else. One that asks for no
    placeholders starts with its first real allocation."""
    lives: dict[tuple[str, str], Life] = {}
    starts = None  # whose state says that the next allocation starts it
    for fact in (fact for _, facts in world.log for fact in facts):
        if isinstance(fact, ApplicationStateChanged):
            life = lives[key_of(fact)]
            if fact.state == "Starting":
                assert (life.state, starts) == ("Accepted", None)
                starts = key_of(fact)
            elif fact.state == "Resuming":
                life.due = {}
            life.state = fact.state
            continue
        allocation, takes_a_place = allocation_in(fact), isinstance(fact, PlaceholderReplaced)
        assert starts is None or allocation is not None, f"{starts} starts, and {fact} follows"
        if allocation is not None:
            life = lives[key_of(allocation)]
            if starts is not None or life.state == "Accepted":
                expected = key_of(allocation) if life.leaves_accepted_with(allocation, takes_a_place) else None
                assert starts == expected, fact
            life.has(allocation)
        starts = None
        if isinstance(fact, ApplicationAccepted):
            lives[fact.partition, fact.application_id] = Life(dict(fact.placeholder_ask))
        elif isinstance(fact, AllocationReleased):
            lives[fact.partition, fact.application_id].has_no_more(fact.uuid)
        elif isinstance(fact, PlaceholderReplaced):
            lives[key_of(fact.allocation)].has_no_more(fact.placeholder)


def allocation_in(fact: Fact) -> Allocated | None:
    if isinstance(fact, AllocationRecovered | GuestKept | PlaceholderReplaced):
        return fact.allocation
    return fact if isinstance(fact, Allocated) else None


def key_of(fact: Allocated | ApplicationStateChanged) -> tuple[str, str]:
    return fact.partition, fact.application_id
