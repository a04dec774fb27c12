"""Laws that hold for any sequence of calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from integrations.peloton.tests.world import LEAVES, World, steps, take
from remuda_peloton import commands
from remuda_peloton.decide.preemption import over_allocation
from remuda_peloton.facts import GangAdmitted
from remuda_peloton.rules.lifecycle import PENDING, PREEMPTING
from remuda_peloton.rules.resources import ZERO, fits, total
from remuda_peloton.settings import Settings
from remuda_peloton.state import Gang, Pool, State

some_settings = st.builds(
    Settings,
    preemption_enabled=st.booleans(),
    enable_host_reservation=st.booleans(),
    attempts_per_cycle=st.integers(1, 3),
    survivors_keep_their_place=st.booleans(),
    scale_reservations=st.booleans(),
    spread_leftovers=st.booleans(),
    fewest_victims=st.booleans(),
    preempt_all_states=st.booleans(),
)
plays = given(some_settings, st.lists(steps, max_size=40))


def _view(state: State) -> Any:
    """Everything that facts say."""
    runs = {
        run_id: tuple(getattr(run, name) for name in type(run).__slots__ if name != "task")
        for run_id, run in ((run.task.mesos_id, run) for run in (*state.runs.values(), *state.orphans.values()))
    }
    pools = {
        pool_id: (
            pool.config, pool.demand, pool.slack_demand, pool.allocation, pool.non_slack, pool.slack, pool.over_count,
            {name: list(queue) for name, queue in pool.queues.items()},
        )
        for pool_id, pool in state.pools.items()
    }  # fmt: skip
    gangs = {number: (gang.pool_id, gang.tasks, gang.queue) for number, gang in state.gangs.items()}
    ready = {kind: list(queue) for kind, queue in state.ready.items()}
    waits = (dict(state.placements), dict(state.candidates), sorted(state.timers), list(state.waiting))
    return runs, pools, gangs, ready, waits, state.capacity, state.acknowledged, state.last_number


@plays
def test_a_replayed_log_gives_the_same_state(chosen: Settings, played: list[Any]) -> None:
    world = World(chosen)
    for step in played:
        take(world, step)
    assert _view(world.replayed().state) == _view(world.state)


def _admissions(chosen: Settings, played: list[Any]) -> Iterator[tuple[World, list[tuple[Gang, Pool]]]]:
    """After each admission pass, the gangs that it has admitted, and their pools."""
    world = World(chosen)
    for step in played:
        logged = len(world.log)
        take(world, step)
        numbers = [f.number for _, facts in world.log[logged:] for f in facts if isinstance(f, GangAdmitted)]
        gangs = [world.state.gangs[number] for number in numbers]
        yield world, [(gang, world.state.pools[gang.pool_id]) for gang in gangs]


@plays
def test_gangs_are_never_half_admitted(chosen: Settings, played: list[Any]) -> None:
    world = World(chosen)
    for step in played:
        pending = {run.task.mesos_id for run in world.state.runs.values() if run.state == PENDING}
        gangs = {number: gang.tasks for number, gang in world.state.gangs.items()}
        logged = len(world.log)
        take(world, step)
        for fact in (fact for _, facts in world.log[logged:] for fact in facts if isinstance(fact, GangAdmitted)):
            members = gangs.get(fact.number, world.state.gangs[fact.number].tasks)
            admitted = {task.mesos_id for task in world.state.gangs[fact.number].tasks}
            assert admitted == {task.mesos_id for task in members if task.mesos_id in pending}


@plays
def test_no_pool_is_admitted_more_than_its_limit(chosen: Settings, played: list[Any]) -> None:
    for _, admitted in _admissions(chosen, played):
        for gang, pool in admitted:
            if not gang.traits.revocable:
                assert fits(pool.allocation.non_slack, pool.config.amounts("limit"))


@plays
def test_no_pool_is_admitted_more_than_its_entitlement(chosen: Settings, played: list[Any]) -> None:
    for _, admitted in _admissions(chosen, played):
        for gang, pool in admitted:
            if gang.traits.revocable:
                assert fits(pool.allocation.slack, pool.slack)
            else:
                assert fits(pool.allocation.non_slack, pool.non_slack)


@plays
def test_what_is_not_preemptible_is_never_above_the_reservation(chosen: Settings, played: list[Any]) -> None:
    for world, admitted in _admissions(chosen, played):
        for gang, pool in admitted:
            if world.settings.preemption_enabled and not gang.traits.preemptible and not gang.traits.revocable:
                assert fits(pool.allocation.non_preemptible, pool.reservation)


@plays
def test_with_all_states_no_pool_keeps_too_much_by_tasks_that_may_be_preempted(
    chosen: Settings, played: list[Any]
) -> None:
    """What it still holds too much is held by others, or is being given back."""
    world = World(structs.replace(chosen, preempt_all_states=True, sustained_over_allocation_count=1))
    for step in played:
        take(world, step)
    before = {pool_id: over_allocation(world.state.pools[pool_id]) for pool_id in LEAVES}
    world.do(commands.Preempt())
    for pool_id in LEAVES:
        for revocable, over in zip((False, True), before[pool_id], strict=True):
            preemptible = [
                run for run in world.state.pools[pool_id].runs.values()
                if run.task.preemptible and run.task.revocable == revocable and run.state not in (PENDING, PREEMPTING)
            ]  # fmt: skip
            kept = [run for run in preemptible if run.task.mesos_id not in world.state.candidates]
            given = [run for run in preemptible if run not in kept]
            left = over_allocation(world.state.pools[pool_id])[revocable]
            assert not kept or fits(left, total(run.task.resource for run in given)), (pool_id, over, left)


@plays
def test_nothing_is_left_when_all_tasks_have_ended(chosen: Settings, played: list[Any]) -> None:
    world = World(chosen)
    for step in played:
        take(world, step)
    world.end_all()
    world.do(commands.GetPreemptibleTasks(1_000))
    state = world.state
    assert not (state.runs or state.orphans or state.hosts or state.gangs or state.placements or state.candidates)
    for leaf in LEAVES:
        pool = state.pools[leaf]
        held = (*(getattr(pool.allocation, name) for name in pool.allocation.__struct_fields__),)
        assert all(fits(one, ZERO) for one in (*held, pool.demand, pool.slack_demand))


@settings(max_examples=50)
@given(st.lists(steps, max_size=25))
def test_a_refused_gang_leaves_nothing_behind(played: list[Any]) -> None:
    world = World(Settings())
    for step in played:
        before = _view(world.state)
        if step[0] == "enqueue":
            answer = world.enqueue(*step[1:])
            if answer.failures:
                assert _view(world.state) == before
                assert len(answer.failures) == len(set(step[2]))
        else:
            take(world, step)
