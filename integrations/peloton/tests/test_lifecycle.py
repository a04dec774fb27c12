"""Single tasks, step by step: the table of states, and defects of Peloton that are not copied."""

from __future__ import annotations

import random
from heapq import heapify
from typing import Any

import pytest

from integrations.peloton.tests.world import World
from remuda_peloton import commands, evolve
from remuda_peloton.decide.requeue import due_timers
from remuda_peloton.explain import explanation
from remuda_peloton.queries import tasks_by_hosts
from remuda_peloton.rules.lifecycle import may_follow
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Settings
from remuda_peloton.state import Run, State

PREEMPTIBLE = (True, False, False)
SOME = 0.01


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Every change of a state is one that the table has."""
    enter = evolve.enter

    def checked(state: Any, run: Any, to: str, *arguments: Any) -> None:
        assert may_follow(run.state, to), (run.state, to)
        enter(state, run, to, *arguments)

    monkeypatch.setattr(evolve, "enter", checked)
    return World(Settings(sustained_over_allocation_count=1))


def ready(world: World, *numbers: int, pool: str = "a", priority: int = 0) -> None:
    world.enqueue(pool, list(numbers), SOME, PREEMPTIBLE, priority)
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())


def states(world: World) -> dict[str, str]:
    return {task_id: run.state for task_id, run in world.state.runs.items()}


def test_from_enqueued_to_finished(world: World) -> None:
    ready(world, 1, 2)
    assert states(world) == {"t1": "READY", "t2": "READY"}
    world.place(1, succeed=True)
    assert states(world) == {"t1": "PLACED", "t2": "PLACED"}
    world.launch()
    assert states(world) == {"t1": "RUNNING", "t2": "RUNNING"}
    assert list(world.state.hosts) == ["host-t1"]
    world.report(("t1-1", "t2-1"), "TASK_FINISHED")
    assert not world.state.runs and not world.state.hosts


@pytest.mark.parametrize("mesos_state", ["TASK_DROPPED", "TASK_GONE", "TASK_UNREACHABLE", "TASK_UNKNOWN"])
def test_a_task_that_mesos_has_lost_holds_nothing(world: World, mesos_state: str) -> None:
    ready(world, 1)
    world.report(("t1-1",), mesos_state)
    assert not world.state.runs


@pytest.mark.parametrize("to", ["LAUNCHING", "LAUNCHED", "RUNNING"])
def test_a_task_that_waits_for_nothing_holds_its_allocation_once_it_is_launched(world: World, to: str) -> None:
    run = Run(Task("t1", "t1-1", (1.0, 0.0, 1.0, 1.0)), "a", "INITIALIZED", world.now_ms)
    evolve.track(world.state, run)
    assert not any(world.state.pools["a"].allocation.total)
    world.do(commands.UpdateTasksState((commands.StateUpdate("t1", "t1-1", to),)))
    assert states(world) == {"t1": to}
    assert world.state.pools["a"].allocation.total == run.task.resource
    if to == "LAUNCHING":  # it goes back like any other
        world.now_ms += 1_200_000
        world.do(commands.Tick())
        assert states(world) == {"t1": "READY"}
    world.do(commands.KillTasks(("t1",)))
    assert not any(world.state.pools["a"].allocation.total)


def test_an_event_of_a_task_that_waits_for_nothing_books_its_allocation(world: World) -> None:
    run = Run(Task("t1", "t1-1", (1.0, 0.0, 1.0, 1.0)), "a", "INITIALIZED", world.now_ms)
    evolve.track(world.state, run)
    world.report(("t1-1",), "TASK_RUNNING")
    assert states(world) == {"t1": "RUNNING"}
    assert world.state.pools["a"].allocation.total == run.task.resource


def test_a_member_of_a_refused_gang_can_be_enqueued_again(world: World) -> None:
    ready(world, 1)
    assert world.enqueue("a", [1, 2], SOME, PREEMPTIBLE, 0).failures
    assert "t2" not in world.state.runs
    assert not world.enqueue("a", [2], SOME, PREEMPTIBLE, 0).failures


def test_survivors_of_a_gang_are_handed_out_after_a_member_was_killed(world: World) -> None:
    ready(world, 1, 2)
    world.do(commands.KillTasks(("t1",)))
    (gang,) = world.do(commands.DequeueGangs(10))
    assert [one.task.id for one in gang] == ["t2"]


def test_a_gang_whose_members_were_all_killed_is_not_handed_out(world: World) -> None:
    ready(world, 1)
    world.do(commands.KillTasks(("t1",)))
    assert world.do(commands.DequeueGangs(10)) == []


def test_a_ready_task_that_is_preempted_is_handed_out_once(world: World) -> None:
    ready(world, 1)
    run = world.state.runs["t1"]
    world.state.pools["a"].non_slack = (0.0, 0.0, 0.0, 0.0)  # as if others needed everything
    world.do(commands.Preempt())
    assert run.state == "PENDING"
    assert world.do(commands.DequeueGangs(10)) == []
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())
    assert len(world.do(commands.DequeueGangs(10))) == 1


def test_an_orphan_counts_until_it_has_ended(world: World) -> None:
    ready(world, 1)
    world.place(1, succeed=True)
    world.launch()
    held = world.state.pools["a"].allocation.total
    ready(world, 1)
    assert list(world.state.orphans) == ["t1-1"]
    assert world.state.pools["a"].allocation.total[0] == 2 * held[0]
    world.report(("t1-1",), "TASK_KILLED")
    assert world.state.pools["a"].allocation.total == held
    assert states(world) == {"t1": "READY"}


def test_placing_times_out_and_attempts_get_more_time(world: World) -> None:
    ready(world, 1)
    times = []
    for _ in range(3):
        ((handed,),) = world.do(commands.DequeueGangs(1))
        times.append(handed.timeout_s)
        world.now_ms += int(handed.timeout_s * 1_000)
        world.do(commands.Tick())
    assert times == [600, 900, 1200]
    assert states(world) == {"t1": "PENDING"}


def test_a_placement_that_no_job_manager_takes_times_out(world: World) -> None:
    ready(world, 1)
    world.place(1, succeed=True)
    world.now_ms += 600_000
    world.do(commands.Tick())
    assert states(world) == {"t1": "READY"} and not world.state.hosts
    assert world.do(commands.GetPlacements(1)) == []


def test_launching_times_out(world: World) -> None:
    ready(world, 1)
    world.place(1, succeed=True)
    world.do(commands.GetPlacements(1))
    world.now_ms += 1_200_000
    world.do(commands.Tick())
    assert states(world) == {"t1": "READY"} and not world.state.hosts


def test_a_task_reserves_a_host_after_all_cycles() -> None:
    world = World(Settings(enable_host_reservation=True, attempts_per_cycle=1, retry_cycles=1))
    ready(world, 1)
    world.do(commands.DequeueGangs(1))
    world.now_ms += 2_000_000
    world.do(commands.Tick())
    ((handed,),) = world.do(commands.DequeueGangs(1))
    assert handed.ready_for_host_reservation and states(world) == {"t1": "RESERVED"}
    world.now_ms += 2_000_000
    world.do(commands.Tick())
    assert states(world) == {"t1": "PENDING"}
    assert (world.state.runs["t1"].attempts, world.state.runs["t1"].cycles) == (0, 0)


def test_the_oldest_gang_of_any_type_is_handed_out_first(world: World) -> None:
    for number in (5, 3, 4):
        ready(world, number)
    gangs = world.do(commands.DequeueGangs(10))
    assert [gang[0].task.id for gang in gangs] == ["t5", "t3", "t4"]


def test_updates_cannot_go_around_admission(world: World) -> None:
    world.enqueue("a", [1], SOME, PREEMPTIBLE, 0)
    world.do(commands.UpdateTasksState((commands.StateUpdate("t1", "t1-1", "READY"),)))
    assert states(world) == {"t1": "PENDING"}


def test_running_tasks_of_a_draining_host_are_preempted_for_maintenance(world: World) -> None:
    ready(world, 1)
    world.place(1, succeed=True)
    world.launch()
    assert world.do(commands.DrainHosts(("host-t1", "other"))) == ("other",)
    (candidate,) = world.do(commands.GetPreemptibleTasks(10))
    assert candidate.reason == commands.HOST_MAINTENANCE and states(world) == {"t1": "RUNNING"}
    world.do(commands.KillTasks(("t1",)))
    assert world.do(commands.DrainHosts(("host-t1",))) == ("host-t1",)


def test_a_host_that_a_waiting_task_names_is_empty(world: World) -> None:
    task = Task("t1", "t1-1", preemptible=True, hostname="h1")
    world.do(commands.EnqueueGangs("a", ((task,),)))
    assert world.do(commands.DrainHosts(("h1",))) == ("h1",)
    world.do(commands.RankHosts(("h2", "h1")))
    assert world.state.ranked_hosts == ("h2", "h1")
    assert "h1" in tasks_by_hosts(world.state, ["h1"], 0)


def test_runs_that_a_host_manager_reports_are_recovered_once(world: World) -> None:
    ready(world, 1)
    task = world.state.runs["t1"].task
    world.do(commands.KillTasks(("t1",)))
    recovered = commands.RecoverRuns((commands.RecoveredRun(task, "a", "STARTING"),) * 2)
    world.do(recovered)
    assert states(world) == {"t1": "STARTING"}
    assert world.state.pools["a"].allocation.total == task.resource
    world.report(("t1-1",), "TASK_FAILED")
    assert world.state.pools["a"].allocation.total == (0.0, 0.0, 0.0, 0.0)


def test_a_waiting_task_is_explained_by_the_rule_that_does_not_admit_it(world: World) -> None:
    world.enqueue("a", [1], 0.5, (False, False, False), 0)
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())
    found = explanation(world.state, world.settings, "t1")
    assert found is not None and found.gang is not None
    assert (found.gang.queue, found.gang.ahead) == ("non-preemptible", 0)
    assert found.gang.rule is not None and found.gang.rule.rule == "reservation"


def test_due_timers_are_found_without_a_look_at_the_others() -> None:
    class Counted(list[tuple[int, str, str]]):
        looks = 0

        def __getitem__(self, place: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(place)

    numbers = random.Random(1)
    timers = [(numbers.randrange(10_000), str(number), "run") for number in range(10_000)]
    heapify(timers)
    state = State()
    state.timers, state.now_ms = Counted(timers), 50
    due = sorted(timer for timer in timers if timer[0] <= 50)
    assert due_timers(state, 1_000) == due and Counted.looks < 5 * len(due)
    assert due_timers(state, 10) == due[:10]
