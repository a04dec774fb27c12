"""The 13 RPCs of ResourceManagerService: each a command with its answer, or a question about the state.

`Rpc.waits`: of an RPC that takes what there is, up to a limit: how much there is. Its caller waits until the time of
the request is over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.task import task_pb2
from remuda_proto.peloton.private.eventstream import eventstream_pb2 as eventstream
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb

from .. import commands, queries
from ..limits import TASKS_PER_CALL
from ..state import State
from .tasks import handed_message, placement_message, placement_of, task_message, task_of

NOT_FOUND: Final = "NOT_FOUND"
INVALID_ARGUMENT: Final = "INVALID_ARGUMENT"
CODE_PREFIX: Final = "ENQUEUE_GANGS_FAILURE_ERROR_CODE_"

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class RpcError(Exception):
    """The RPC ends with a gRPC status. `code`: its name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Rpc(Generic[Request, Response]):
    """A command: `command` reads the request, `answer` makes the response. `check`: raises RpcError for a request that
    must not come into the inbox. A question: `question` makes the response, or raises RpcError."""

    def __init__(
        self,
        request: type[Request],
        command: Callable[[Request], commands.Command] | None = None,
        answer: Callable[[Request, Any], Response] | None = None,
        question: Callable[[State, Request], Response] | None = None,
        waits: Callable[[State, Request], int] | None = None,
        check: Callable[[Request], None] | None = None,
    ) -> None:
        self.request, self.command, self.answer, self.question, self.waits = request, command, answer, question, waits
        self.check = check


def _check_gangs(request: pb.EnqueueGangsRequest) -> None:
    count = sum(len(gang.tasks) for gang in request.gangs)
    if count > TASKS_PER_CALL:
        raise RpcError(INVALID_ARGUMENT, f"gangs have {count} tasks, expected at most {TASKS_PER_CALL}")


def _enqueue(request: pb.EnqueueGangsRequest) -> commands.Command:
    gangs = tuple(tuple(task_of(task) for task in gang.tasks) for gang in request.gangs)
    return commands.EnqueueGangs(request.resPool.value, gangs, request.reason)


def _enqueued(request: pb.EnqueueGangsRequest, answer: commands.Enqueued) -> pb.EnqueueGangsResponse:
    response = pb.EnqueueGangsResponse()
    if not answer.pool_found:
        not_found = response.error.notFound
        not_found.id.value = request.resPool.value
        not_found.message = f"there is no pool {request.resPool.value[:64]!r}"
    for one in answer.failures:
        code = pb.EnqueueGangsFailure.ErrorCode.Value(CODE_PREFIX + one.code)
        response.error.failure.failed.add(task=task_message(one.task), message=one.message, errorcode=code)
    return response


def _dequeued(request: pb.DequeueGangsRequest, answer: list[tuple[commands.Handed, ...]]) -> pb.DequeueGangsResponse:
    gangs = [pb.Gang(tasks=[handed_message(one) for one in gang]) for gang in answer]
    return pb.DequeueGangsResponse(gangs=gangs)


def _set_placements(request: pb.SetPlacementsRequest) -> commands.Command:
    failed = tuple(
        commands.FailedPlacement(tuple((task.id.value, task.taskId.value) for task in one.gang.tasks), one.reason)
        for one in request.failedPlacements
    )
    return commands.SetPlacements(tuple(placement_of(one) for one in request.placements), failed)


def _placements_set(request: pb.SetPlacementsRequest, answer: tuple[tuple[Any, str], ...]) -> pb.SetPlacementsResponse:
    response = pb.SetPlacementsResponse()
    for placement, message in answer:
        response.error.failure.failed.add(placement=placement_message(placement), message=message)
    return response


def _event_of(event: eventstream.Event) -> commands.TaskEvent:
    if event.type != eventstream.Event.MESOS_TASK_STATUS:
        return commands.TaskEvent(event.offset)
    status = event.mesosTaskStatus
    return commands.TaskEvent(event.offset, status.task_id.value, mesos.TaskState.Name(status.state))


def _kill(request: pb.KillTasksRequest) -> commands.Command:
    return commands.KillTasks(tuple(task.value for task in request.tasks))


def _killed(request: pb.KillTasksRequest, answer: tuple[str, ...]) -> pb.KillTasksResponse:
    response = pb.KillTasksResponse()
    if not request.tasks:
        response.error.add().notFound.message = "tasks is empty, expected IDs of tasks"
    for task_id in answer:
        not_found = response.error.add().notFound
        not_found.task.value, not_found.message = task_id, f"there is no task {task_id[:100]!r}"
    return response


def _candidates(
    request: pb.GetPreemptibleTasksRequest, answer: list[commands.Candidate]
) -> pb.GetPreemptibleTasksResponse:
    response = pb.GetPreemptibleTasksResponse()
    for one in answer:
        reason = resmgr_pb2.PreemptionReason.Value(one.reason)
        candidate = response.preemptionCandidates.add(reason=reason, task_id=mesos.TaskID(value=one.run_id))
        candidate.id.value = one.task_id
    return response


def _update(request: pb.UpdateTasksStateRequest) -> commands.Command:
    known = task_pb2.TaskState.values()
    return commands.UpdateTasksState(tuple(
        commands.StateUpdate(one.task.value, one.mesosTaskId.value, task_pb2.TaskState.Name(one.state))
        for one in request.taskStates if one.state in known
    ))  # fmt: skip


def _tasks_by_hosts(state: State, request: pb.GetTasksByHostsRequest) -> pb.GetTasksByHostsResponse:
    response = pb.GetTasksByHostsResponse()
    for hostname, tasks in queries.tasks_by_hosts(state, request.hostnames, request.type).items():
        response.hostTasksMap[hostname].tasks.extend(handed_message(one) for one in tasks)
    return response


def _active_tasks(state: State, request: pb.GetActiveTasksRequest) -> pb.GetActiveTasksResponse:
    response = pb.GetActiveTasksResponse()
    for run in queries.active_tasks(state, request.jobID, request.respoolID, request.states):
        response.tasksByState[run.state].taskEntry.add(
            taskID=run.task.mesos_id, taskState=run.state, reason=run.reason, hostname=run.hostname,
            lastUpdateTime=_go_time(run.since_ms),
        )  # fmt: skip
    return response


def _pending_tasks(state: State, request: pb.GetPendingTasksRequest) -> pb.GetPendingTasksResponse:
    pool_id = request.respoolID.value
    if not pool_id:
        raise RpcError(INVALID_ARGUMENT, "respoolID is empty, expected the ID of a leaf")
    pool = state.pools.get(pool_id)
    if pool is None:
        raise RpcError(NOT_FOUND, f"respoolID is {pool_id[:64]!r}: there is no such pool")
    if not pool.is_leaf:
        raise RpcError(INVALID_ARGUMENT, f"respoolID is {pool_id!r}, which is root or has children; expected a leaf")
    response = pb.GetPendingTasksResponse()
    for name, gangs in queries.pending_gangs(state, pool, request.limit).items():
        pending = response.pendingGangsByQueue[name].pendingGangs
        for task_ids in gangs:
            pending.add(taskIDs=task_ids)
    return response


def _orphans(state: State, request: pb.GetOrphanTasksRequest) -> pb.GetOrphanTasksResponse:
    tasks = [handed_message(one) for one in queries.orphans(state, request.respoolID)]
    return pb.GetOrphanTasksResponse(orphanTasks=tasks)


def _hosts(state: State, request: pb.GetHostsByScoresRequest) -> pb.GetHostsByScoresResponse:
    return pb.GetHostsByScoresResponse(hosts=state.ranked_hosts[: request.limit])


def _go_time(at_ms: int) -> str:
    """Go's default text of a time: without zeros at the end of the fraction, or the point alone."""
    text = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return f"{text.rstrip('0').removesuffix('.')} +0000 UTC"


RPCS: Final[dict[str, Rpc[Any, Any]]] = {
    "EnqueueGangs": Rpc(pb.EnqueueGangsRequest, _enqueue, _enqueued, check=_check_gangs),
    "DequeueGangs": Rpc(
        pb.DequeueGangsRequest,
        lambda request: commands.DequeueGangs(request.limit, request.type),
        _dequeued,
        waits=lambda state, request: len(state.ready.get(request.type, ())) if request.type else state.ready_count,
    ),
    "SetPlacements": Rpc(pb.SetPlacementsRequest, _set_placements, _placements_set),
    "GetPlacements": Rpc(
        pb.GetPlacementsRequest,
        lambda request: commands.GetPlacements(request.limit),
        lambda _, answer: pb.GetPlacementsResponse(placements=[placement_message(one) for one in answer]),
        waits=lambda state, _: len(state.placements),
    ),
    "NotifyTaskUpdates": Rpc(
        pb.NotifyTaskUpdatesRequest,
        lambda request: commands.NotifyTaskUpdates(tuple(_event_of(event) for event in request.events)),
        lambda _, answer: pb.NotifyTaskUpdatesResponse(purgeOffset=answer),
    ),
    "GetTasksByHosts": Rpc(pb.GetTasksByHostsRequest, question=_tasks_by_hosts),
    "GetActiveTasks": Rpc(pb.GetActiveTasksRequest, question=_active_tasks),
    "GetPendingTasks": Rpc(pb.GetPendingTasksRequest, question=_pending_tasks),
    "KillTasks": Rpc(pb.KillTasksRequest, _kill, _killed),
    "GetPreemptibleTasks": Rpc(
        pb.GetPreemptibleTasksRequest,
        lambda request: commands.GetPreemptibleTasks(request.limit),
        _candidates,
        waits=lambda state, _: len(state.candidates),
    ),
    "UpdateTasksState": Rpc(pb.UpdateTasksStateRequest, _update, lambda _, __: pb.UpdateTasksStateResponse()),
    "GetOrphanTasks": Rpc(pb.GetOrphanTasksRequest, question=_orphans),
    "GetHostsByScores": Rpc(pb.GetHostsByScoresRequest, question=_hosts),
}
