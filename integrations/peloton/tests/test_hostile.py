"""Requests that would end the process, or change what other pools get."""

from __future__ import annotations

import msgspec
import pytest

from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.limits import AMOUNT, TASKS_PER_CALL
from remuda_peloton.rules.pools import InvalidPool, KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS, Vector
from remuda_peloton.rules.task import Task
from remuda_peloton.wire.rpcs import RPCS, RpcError
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2

CAPACITY: Vector = (100.0, 10.0, 1_000.0, 1_000.0)


def core_with_pools() -> Core:
    core = Core()
    core.handle(commands.SetCapacity(CAPACITY, 20.0), 1)
    for name in ("a", "b"):
        resources = tuple(KindConfig(kind, 1.0, 10.0) for kind in KINDS)
        core.handle(commands.CreatePool(PoolConfig(name, name, resources=resources)), 1)
    return core


def test_one_run_twice_in_a_gang_is_refused() -> None:
    core = core_with_pools()
    gang = (Task("t1", "run"), Task("t2", "run"))
    _, answer = core.handle(commands.EnqueueGangs("a", (gang,)), 2)
    assert [one.code for one in answer.failures] == [commands.GANG_FAILED, commands.ALREADY_EXIST]
    core.handle(commands.KillTasks(("t1", "t2")), 3)
    check(core.state)


@pytest.mark.parametrize("amount", [1.7e308, 2 * AMOUNT, float("inf"), float("nan"), -1.0])
def test_task_that_has_no_possible_amount_is_refused(amount: float) -> None:
    core = core_with_pools()
    _, answer = core.handle(commands.EnqueueGangs("a", ((Task("t", "run", (amount, 0.0, 0.0, 0.0)),),)), 2)
    assert "resource of task t" in answer.failures[0].message


@pytest.mark.parametrize("number", [float("inf"), float("nan"), -1.0])
@pytest.mark.parametrize("field", ["attempts", "cycles"])
def test_counter_that_is_no_number_is_refused(field: str, number: float) -> None:
    core = core_with_pools()
    task = msgspec.structs.replace(Task("t", "run"), **{field: number})
    _, answer = core.handle(commands.EnqueueGangs("a", ((task,),)), 2)
    assert "of task t is" in answer.failures[0].message
    core.handle(commands.Admit(), 3)
    assert core.handle(commands.DequeueGangs(1), 4)[1] == []


@pytest.mark.parametrize(
    ("task", "state"),
    [
        (Task("t", "run", (float("nan"), 0.0, 0.0, 0.0)), "RUNNING"),
        (Task("t", "run", attempts=float("nan")), "RUNNING"),
        (Task("", "run"), "RUNNING"),
        (Task("t", ""), "RUNNING"),
        *((Task("t", "run"), state) for state in ("", "GONE", "PENDING", "READY", "PLACED", "LAUNCHING", "FAILED")),
    ],
)
def test_run_that_cannot_be_is_not_recovered(task: Task, state: str) -> None:
    """A host manager cannot make the entitlements of pools no numbers, nor a run that never goes on."""
    core = core_with_pools()
    facts, _ = core.handle(commands.RecoverRuns((commands.RecoveredRun(task, "a", state),)), 2)
    assert facts == []
    check(core.state)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("field", ["reservation", "limit", "share"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_pool_with_a_number_that_is_no_amount_is_refused(field: str, value: float, force: bool) -> None:
    core = core_with_pools()
    former = core.state.pools["b"].entitlement
    resources = tuple(msgspec.structs.replace(KindConfig(kind), **{field: value}) for kind in KINDS)
    facts, answer = core.handle(commands.UpdatePool(PoolConfig("a", "a", resources=resources), force), 2)
    assert isinstance(answer, InvalidPool)
    assert facts == [] and core.state.pools["b"].entitlement == former


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("field", ["controller_limit_percent", "slack_limit_percent"])
def test_pool_with_a_percentage_that_is_no_number_is_refused(field: str, force: bool) -> None:
    core = core_with_pools()
    resources = tuple(KindConfig(kind, 1.0, 10.0) for kind in KINDS)
    config = PoolConfig("a", "a", resources=resources, **{field: float("nan")})  # type: ignore[arg-type]
    assert isinstance(core.handle(commands.UpdatePool(config, force), 2)[1], InvalidPool)


def test_tasks_of_one_call_have_a_bound() -> None:
    request = resmgrsvc_pb2.EnqueueGangsRequest()
    for _ in range(2):
        request.gangs.add().tasks.extend([resmgr_pb2.Task()] * (TASKS_PER_CALL // 2 + 1))
    check_request = RPCS["EnqueueGangs"].check
    assert check_request is not None
    with pytest.raises(RpcError, match=f"{TASKS_PER_CALL + 2} tasks, expected at most {TASKS_PER_CALL}") as refused:
        check_request(request)
    assert refused.value.code == "INVALID_ARGUMENT"
