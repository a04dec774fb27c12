"""Gangs whose placements are refused: all or none of a gang that is placed as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from integrations.peloton.tests.test_engine import Cluster, task
from integrations.peloton.tests.world import CAPACITY, World, steps, take
from remuda_peloton import commands
from remuda_peloton.facts import GangDequeued, PlacementQueued
from remuda_peloton.limits import PLACEMENTS_PER_REQUEST
from remuda_peloton.rules.hosts import Host, Placement
from remuda_peloton.rules.lifecycle import PLACING, RESERVED
from remuda_peloton.settings import Settings

HOSTS = ("h1", "h2", "h3")
hosts_of_tasks = st.tuples(st.just("place on"), st.lists(st.sampled_from((*HOSTS, "unknown", "")), min_size=1))
plays = given(
    st.builds(Settings, whole_gangs=st.booleans(), enable_host_reservation=st.booleans()),
    st.lists(st.one_of(hosts_of_tasks, steps), max_size=40),
)


def cluster_of(settings: Settings) -> World:
    world = World(settings)
    cpu, gpu, memory, disk = (amount / len(HOSTS) for amount in CAPACITY)
    world.do(commands.PutHosts(tuple(Host(name, (cpu, gpu, memory, disk), 5.0) for name in HOSTS)))
    return world


def place_on(world: World, hosts: list[str]) -> None:
    """An engine puts tasks of what it has on these hosts, one after the other, in one request; and fails as many."""
    taken = [run for run in world.state.runs.values() if run.state in (PLACING, RESERVED)]
    pairs = [(run.task.id, run.task.mesos_id) for run in taken]
    placements = tuple(Placement(host, (pair,)) for host, pair in zip(hosts, pairs, strict=False))
    failed = tuple(commands.FailedPlacement((pair,), "no room") for pair in pairs[len(hosts) : 2 * len(hosts)])
    world.do(commands.SetPlacements(placements, failed))


def play(world: World, step: Any) -> None:
    if step[0] == "place on":
        place_on(world, step[1])
    else:
        take(world, step)


@plays
def test_a_gang_is_placed_as_a_whole_or_not(chosen: Settings, played: list[Any]) -> None:
    """Always, if the request names all of its tasks; with whole_gangs, whatever the request names."""
    world = cluster_of(chosen)
    for step in played:
        gangs = {number: set(runs) for number, runs in world.state.taken.items()}
        logged = len(world.log)
        play(world, step)
        facts = [fact for _, some in world.log[logged:] for fact in some]
        for fact in facts:  # those that the step itself has dequeued
            if isinstance(fact, GangDequeued):
                gangs[fact.number] = {one.task_id for one in fact.tasks}
        placed = {one for fact in facts if isinstance(fact, PlacementQueued) for one, _ in fact.placement.tasks}
        if chosen.whole_gangs:
            assert all(gang <= placed or not gang & placed for gang in gangs.values())
        elif step[0] == "place on":
            named = list(dict.fromkeys(task_id for gang in gangs.values() for task_id in gang))
            if len(step[1]) >= len(named):
                assert all(gang <= placed or not gang & placed for gang in gangs.values())


@plays
def test_with_whole_gangs_no_task_of_a_gang_goes_back_without_the_others(chosen: Settings, played: list[Any]) -> None:
    world = cluster_of(Settings(whole_gangs=True, enable_host_reservation=chosen.enable_host_reservation))
    for step in played:
        together = [set(runs) for runs in world.state.taken.values()]
        play(world, step)
        for gang in together:
            left = {world.state.runs[task_id].taken_in for task_id in gang if task_id in world.state.runs}
            assert len(left) <= 1


def test_an_engine_tries_a_refused_gang_again_as_a_whole() -> None:
    cluster = Cluster(hosts=2)
    late = cluster.engine("late", refresh_s=1e9)
    cluster.enqueue([task(100, 0.0)])
    cluster.turn(late)  # it knows empty hosts
    cluster.enqueue([task(0, 2.0)])
    cluster.turn(cluster.engine("early"))
    cluster.placed()
    cluster.enqueue([task(1, 2.0), task(2, 2.0)])
    cluster.turn(late)  # one of them has no room any more
    assert not cluster.placed()
    cluster.now_ms += 1
    cluster.do(commands.KillTasks(("t0",)))
    late._refresh_s = 0.0
    cluster.turn(late)
    assert cluster.placed().keys() == {"t1", "t2"}


def test_an_engine_divides_its_requests_between_gangs() -> None:
    cluster = Cluster(hosts=1, cpu=1e6)
    gang = PLACEMENTS_PER_REQUEST // 2 + 1
    cluster.enqueue(*([task(number * gang + n, 0.0) for n in range(gang)] for number in range(3)))
    cluster.turn(cluster.engine())
    assert cluster.calls["SetPlacements"] == 3
    assert all(run.state == "PLACED" for run in cluster.core.state.runs.values())
