"""Why tasks and gangs wait, the steps of entitlements, and stories."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.explain import explanation, pool_rows
from remuda_peloton.facts import Fact, kinds
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import DEFAULT
from remuda_peloton.story import Story


class Board:
    """The example of the specification: root has 1, 2 and 3; 1 has 11; 2 has 21 and 22. Each reserves 10 cpu."""

    def __init__(self) -> None:
        self.core = Core()
        self.facts: list[Fact] = []
        self.do(commands.SetCapacity((100.0, 0.0, 0.0, 0.0), 0.0))
        for name, parent in (("1", "root"), ("2", "root"), ("3", "root"), ("11", "1"), ("21", "2")):
            pool = PoolConfig(name, name, parent, (KindConfig("cpu", 10.0, 100.0),))
            assert self.do(commands.CreatePool(pool)) == name

    def do(self, command: commands.Command) -> Any:
        facts, answer = self.core.handle(command, 1_000)
        self.facts += facts
        return answer

    def enqueue(self, pool: str, *tasks: Task) -> None:
        self.do(commands.EnqueueGangs(pool, (tasks,)))

    def story(self, sought: str) -> list[str]:
        story = Story(sought)
        return [line for fact in self.facts if (line := story.line_of(fact)) is not None]


def task(number: int, cpu: float, **more: Any) -> Task:
    return Task(f"t{number}", f"t{number}-1", (cpu, 0.0, 0.0, 0.0), **more)


@pytest.fixture
def board() -> Board:
    return Board()


def test_gang_that_waits_is_told_its_rule_and_the_steps_of_the_entitlement(board: Board) -> None:
    board.enqueue("11", task(1, 30.0), task(2, 30.0))
    board.enqueue("21", task(3, 40.0, preemptible=True))
    board.do(commands.CalculateEntitlements())
    board.do(commands.Admit())
    found = explanation(board.core.state, DEFAULT, "t2")
    assert found is not None and found.gang is not None and found.gang.rule is not None
    assert (found.gang.number, found.gang.queue, found.gang.size, found.gang.ahead) == (1, "non-preemptible", 2, 0)
    rule = found.gang.rule
    assert (rule.rule, rule.wanted, rule.bound) == ("reservation", {"cpu": 60.0}, {"cpu": 10.0})
    assert [one.pool for one in found.pools] == ["/1", "/1/11"]
    cpu = found.pools[0].kinds[0]
    assert (cpu.parent_has, cpu.need, cpu.reservation, cpu.reserved) == (100.0, 60.0, 10.0, 10.0)
    assert (
        cpu.with_need == pytest.approx(60.0, abs=0.001)
        and cpu.entitlement == board.core.state.pools["1"].entitlement[0]
    )


def test_steps_end_at_the_entitlement_of_each_pool(board: Board) -> None:
    board.enqueue("21", task(1, 20.0))
    board.do(commands.CalculateEntitlements())
    found = explanation(board.core.state, DEFAULT, "t1")
    assert found is not None
    for pool, pool_id in zip(found.pools, ("2", "21"), strict=True):
        assert tuple(one.entitlement for one in pool.kinds) == board.core.state.pools[pool_id].entitlement


def test_task_is_found_by_its_run_and_by_its_gang(board: Board) -> None:
    board.enqueue("3", task(1, 1.0))
    by_id, by_run, by_gang = (explanation(board.core.state, DEFAULT, one) for one in ("t1", "t1-1", "gang/1"))
    assert by_id == by_run == by_gang and by_id is not None
    assert explanation(board.core.state, DEFAULT, "gang/2") is explanation(board.core.state, DEFAULT, "t2") is None


def test_orphan_is_found_by_its_run(board: Board) -> None:
    board.do(commands.RecoverRuns((commands.RecoveredRun(task(1, 1.0), "3", "RUNNING"),)))
    board.enqueue("3", Task("t1", "t1-2", (1.0, 0.0, 0.0, 0.0)))
    found = explanation(board.core.state, DEFAULT, "t1-1")
    assert found is not None and [(one.run, one.orphan) for one in found.tasks] == [("t1-1", True)]
    assert found.gang is None


def test_rows_of_pools_come_by_path_in_pages(board: Board) -> None:
    board.enqueue("21", task(1, 20.0))
    state = board.core.state
    assert [one.path for one in pool_rows(state, "", 4)] == ["/", "/1", "/1/11", "/2"]
    assert [one.path for one in pool_rows(state, "/2", 9)] == ["/2/21", "/3"]
    assert [one.path for one in pool_rows(state, "", 9, "/2")] == ["/2", "/2/21"]
    inner = pool_rows(state, "", 9, "/2")[0]
    assert (inner.leaf, inner.demand["cpu"], inner.tasks, inner.queues) == (False, 20.0, 1, {})


def test_story_of_a_task_has_its_gangs_and_placements(board: Board) -> None:
    board.enqueue("11", task(1, 5.0), task(2, 5.0))
    board.do(commands.CalculateEntitlements())
    board.do(commands.Admit())
    (gang,) = board.do(commands.DequeueGangs(1))
    failed = tuple((one.task.id, one.task.mesos_id) for one in gang)
    board.do(commands.SetPlacements(failed=(commands.FailedPlacement(failed, "no host"),)))
    board.do(commands.KillTasks(("t1",)))
    assert board.story("t1") == board.story("t1-1") == [
        "gang/1 of 2 tasks is PENDING in pool 11",
        "gang/1 is admitted: READY",
        "gang/1 is with an engine: 2 tasks PLACING for 600 s, attempt 1 of cycle 0",
        "t1-1 is READY again as gang/2: no host",
        "t1-1 has ended, KILLED: killed by the job manager",
    ]  # fmt: skip
    assert board.story("gang/3") == [] and board.story("gang/1")[-1].startswith("gang/1 is with an engine")
    assert board.story("11")[0].startswith("pool 11 is created below 1: cpu 10 to 100, share 1; gpu 0 to 0, share 1")


def test_each_fact_has_words_or_concerns_no_task() -> None:
    from remuda_peloton import facts, story

    told = {*story.OF_GANGS, *story.OF_RUNS, *story.OF_POOLS}
    told |= {
        facts.EntitlementsChanged, facts.RunRecovered, facts.PlacementQueued, facts.PlacementTaken, facts.GangRequeued,
        facts.GangEnqueued,
    }  # fmt: skip
    others = {
        facts.CapacityChanged, facts.CandidatesTaken, facts.HostsRanked, facts.HostsPut, facts.HostsRemoved,
        facts.HostsShared, facts.SharedPlaced, facts.EventsAcknowledged, facts.TimePassed,
    }  # fmt: skip
    assert set(kinds()) == told | others and not told & others
