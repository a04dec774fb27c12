"""Answers of RPCs, field by field, where tables of Peloton's tests have no case."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.facts import EventsAcknowledged
from remuda_peloton.rules.pools import ROOT, KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.wire import pool_rpcs, rpcs, snapshots
from remuda_peloton.wire.messages import read_fact, write_fact
from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_replication.log import Position

AT_MS = 1_795_000_000_000
LARGEST = 2**64 - 1  # of an offset


class Client:
    """Calls RPCs of a resource manager that has the leaf `a`, with room for 10 of everything."""

    def __init__(self) -> None:
        self.core = Core()
        self.now_ms = AT_MS
        self._do(commands.SetCapacity((10.0, 10.0, 10.0, 10.0)))
        self._do(commands.CreatePool(PoolConfig("a", "a", resources=tuple(KindConfig(kind, 0, 10) for kind in KINDS))))

    def _do(self, command: commands.Command) -> Any:
        return self.core.handle(command, self.now_ms)[1]

    def call(self, name: str, request: Any) -> Any:
        """Raises RpcError."""
        rpc = {**rpcs.RPCS, **pool_rpcs.RPCS}[name]
        if rpc.question is not None:
            return rpc.question(self.core.state, request)
        assert rpc.command is not None and rpc.answer is not None
        return rpc.answer(request, self._do(rpc.command(request)))

    def enqueue(self, *task_ids: str, pool: str = "a") -> Any:
        """A gang of tasks, each with its first run."""
        request = pb.EnqueueGangsRequest()
        request.resPool.value = pool
        gang = request.gangs.add()
        for task_id in task_ids:
            task = gang.tasks.add(taskId=mesos.TaskID(value=f"{task_id}-1"), preemptible=True)
            task.id.value, task.resource.cpuLimit = task_id, 1.0
        return self.call("EnqueueGangs", request)

    def pending(self, limit: int = 10) -> list[list[str]]:
        request = pb.GetPendingTasksRequest(limit=limit)
        request.respoolID.value = "a"
        found = self.call("GetPendingTasks", request).pendingGangsByQueue
        return [list(gang.taskIDs) for gang in found["pending"].pendingGangs]

    def kill(self, *task_ids: str) -> Any:
        request = pb.KillTasksRequest()
        for task_id in task_ids:
            request.tasks.add().value = task_id
        return self.call("KillTasks", request)


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_forced_change_has_a_policy_that_can_be_answered(client: Client) -> None:
    """Else each GetResourcePool and Query would end with an error from then on."""
    request = respool_pb2.UpdateRequest(Force=True)
    request.id.value = "a"
    request.config.name, request.config.parent.value = "a", ROOT
    request.config.policy = 7  # type: ignore[assignment]
    refused = client.call("UpdateResourcePool", request).error.invalidResourcePoolConfig
    assert refused.id.value == "a" and refused.message == "policy is '7', expected PriorityFIFO"
    assert len(client.call("Query", respool_pb2.QueryRequest()).resourcePools) == 2


def test_a_pool_is_not_found_by_a_path_that_is_not_absolute(client: Client) -> None:
    for path in ("a", ""):
        request = respool_pb2.DeleteRequest()
        request.path.value = path
        error = client.call("DeleteResourcePool", request).error
        assert error.HasField("notFound") and error.notFound.path.value == path
    assert "a" in client.core.state.pools


def test_pending_gangs_have_tasks_and_are_in_the_order_of_admission(client: Client) -> None:
    for gang in (("t1",), ("t2", "t3"), ("t4",)):
        assert not client.enqueue(*gang).HasField("error")
    client.kill("t1", "t3")
    assert client.pending() == [["t2"], ["t4"]]
    assert client.pending(limit=1) == [["t2"]] and client.pending(limit=0) == []


@pytest.mark.parametrize(
    ("fraction_ms", "text"), [(0, "11:06:40"), (120, "11:06:40.12"), (7, "11:06:40.007"), (20_000, "11:07:00")]
)
def test_times_are_as_go_writes_them(client: Client, fraction_ms: int, text: str) -> None:
    client.now_ms += fraction_ms
    client.enqueue("t1")
    (entry,) = client.call("GetActiveTasks", pb.GetActiveTasksRequest()).tasksByState["PENDING"].taskEntry
    assert entry.lastUpdateTime == f"2026-11-18 {text} +0000 UTC" and entry.taskID == "t1-1"


def test_root_takes_no_gang_and_has_none(client: Client) -> None:
    (failed,) = client.enqueue("t1", pool=ROOT).error.failure.failed
    assert failed.errorcode == pb.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_FAILED_DUE_TO_GANG_FAILED
    assert failed.message == "pool root is root or has children, expected a leaf"
    request = pb.GetPendingTasksRequest(limit=1)
    request.respoolID.value = ROOT
    with pytest.raises(rpcs.RpcError, match="'root', which is root or has children; expected a leaf") as refused:
        client.call("GetPendingTasks", request)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_kill_names_each_task_that_is_not_known(client: Client) -> None:
    client.enqueue("t1")
    assert [one.notFound.task.value for one in client.kill("t0", "t1", "t1").error] == ["t0", "t1"]
    (empty,) = client.kill().error
    assert empty.HasField("notFound") and not empty.notFound.HasField("task")


def test_the_largest_offset_is_acknowledged_and_kept(client: Client) -> None:
    """An offset that the log could not hold ended each leader that decided about it."""
    request = pb.NotifyTaskUpdatesRequest()
    request.events.add(offset=LARGEST)
    rpc = rpcs.RPCS["NotifyTaskUpdates"]
    assert rpc.command is not None and rpc.answer is not None
    facts, answer = client.core.handle(rpc.command(request), AT_MS)
    assert [read_fact(write_fact(fact)) for fact in facts] == facts == [EventsAcknowledged(LARGEST)]
    assert rpc.answer(request, answer).purgeOffset == LARGEST
    saved = b"".join(snapshots.write("peloton.x", Position(), 0, client.core.state))
    assert snapshots.read("peloton.x", saved)[2].acknowledged == LARGEST
