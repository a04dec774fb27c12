"""Plays the kind rpc on the core: requests as protobuf-JSON, read and answered as over the wire."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import Message

from integrations.peloton.tests.conformance import over_grpc, pools
from integrations.peloton.tests.conformance.compare import equal, subset
from integrations.peloton.tests.conformance.over_grpc import Call, served
from integrations.peloton.tests.conformance.rules_played import Differences
from integrations.peloton.tests.conformance.tables import Case
from remuda_peloton import commands, evolve
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.facts import CandidateQueued, HostsRanked
from remuda_peloton.rules import lifecycle
from remuda_peloton.rules.resources import vector
from remuda_peloton.rules.task import Allocation
from remuda_peloton.settings import Settings
from remuda_peloton.state import Run
from remuda_peloton.wire import pool_rpcs
from remuda_peloton.wire.rpcs import RPCS, RpcError
from remuda_peloton.wire.tasks import task_of
from remuda_proto.peloton.private.resmgr import resmgr_pb2

Step = dict[str, Any]


def play(case: Case) -> Differences:
    yield from _played(case, Board(case))


def play_over_grpc(case: Case) -> Differences:
    """Over a real server, with the headers of YARPC clients. Steps that are no calls change its core directly."""
    board = Board(case)
    with served(board.core, clock_ms=lambda: board.now_ms) as board.remote:
        yield from _played(case, board)


def _played(case: Case, board: Board) -> Differences:
    for place, (step, wanted) in enumerate(zip(case.given["steps"], case.expect["steps"], strict=True)):
        answer = getattr(board, step["op"])(step)
        if board.consistent:
            check(board.core.state)
        if wanted is not None:
            yield from board.compare(f"steps[{place}]", answer, wanted)


class Board:
    """`consistent`: no step has set sums apart from what they are sums of."""

    def __init__(self, case: Case) -> None:
        self.core = Core(Settings(**case.given["config"]))
        self.core.state = self.state = pools.state_with(case.pools(case.given["pools"]))
        self.known = set(self.state.pools)
        self.rpcs = RPCS if case.given["service"] == "resmgr" else pool_rpcs.RPCS
        self.service = case.given["service"]
        self.consistent = True
        self.now_ms = 1_000
        self.remote: Call | None = None

    def call(self, step: Step) -> dict[str, Any]:
        rpc = self.rpcs[step["rpc"]]
        request = json_format.ParseDict(step["request"], rpc.request())
        try:
            if self.remote is not None:
                response = self.remote(self.service, step["rpc"], request, response_of(self.service, step["rpc"]))
            elif rpc.question is not None:
                response = rpc.question(self.state, request)
            else:
                assert rpc.command is not None and rpc.answer is not None
                _, answer = self.core.handle(pool_rpcs.with_id(rpc.command(request), str(uuid.uuid4())), self.now_ms)
                response = rpc.answer(request, answer)
        except RpcError as error:
            return {"error": {"status": error.code}}
        except grpc.RpcError as error:
            return {"error": {"status": error.code().name}}
        answered: dict[str, Any] = json_format.MessageToDict(response)
        return answered

    def set_entitlement(self, step: Step) -> None:
        pools.set_entitlement(self.state, step["pool"], step)

    def admission_cycle(self, step: Step) -> None:
        self.core.handle(commands.Admit(), self.now_ms)

    def drive(self, step: Step) -> None:
        message = json_format.ParseDict(step["task"], resmgr_pb2.Task())
        run = Run(task_of(message), step["pool"], lifecycle.INITIALIZED, self.now_ms, "driven")
        evolve.track(self.state, run)
        for to in step["path"]:
            assert lifecycle.may_follow(run.state, to), (run.state, to)
            pools.move(self.state, run, to)
        self.consistent = False  # a task may be PLACED without a placement

    def kill(self, step: Step) -> None:
        self.core.handle(commands.KillTasks((step["task"],)), self.now_ms)

    forget = kill  # a task that is not tracked has no place in a queue either

    def preemption_queue(self, step: Step) -> None:
        run = self.state.runs.get(step["task"])
        run_id = step["task"] + "-1" if run is None else run.task.mesos_id
        evolve.evolve(self.state, CandidateQueued(step["task"], run_id, step["reason"]))

    def put_pending(self, step: Step) -> None:
        messages = [
            one if isinstance(one, dict) else {"id": {"value": one}, "taskId": {"value": f"{one}-1"}}
            for one in step["tasks"]
        ]
        tasks = tuple(task_of(json_format.ParseDict(one, resmgr_pb2.Task())) for one in messages)
        for task in tasks:
            if task.id not in self.state.runs:
                evolve.track(self.state, Run(task, step["pool"], lifecycle.PENDING, self.now_ms))
        evolve.queue_gang(self.state, self.state.last_number + 1, step["pool"], tasks, step["queue"])
        self.consistent = False

    def ordered_hosts(self, step: Step) -> None:
        evolve.evolve(self.state, HostsRanked(tuple(step["hosts"])))

    def set_allocation(self, step: Step) -> None:
        self.state.pools[step["pool"]].allocation = Allocation(total=vector(step["total"]))
        self.consistent = False

    def compare(self, where: str, answer: Any, wanted: dict[str, Any]) -> Differences:
        state, answer = self.state, answer or {}
        if "response" in wanted:
            yield from subset(f"{where}.response", answer, wanted["response"])
        for task_id, theirs in wanted.get("states", {}).items():
            run = state.runs.get(task_id)
            yield from equal(f"{where}.states.{task_id}", None if run is None else run.state, theirs)
        entries = answer.get("tasksByState", {}).values()
        orphans = sorted(one["taskId"]["value"] for one in answer.get("orphanTasks", []))
        new = [one for one in answer.get("resourcePools", []) if one["id"]["value"] not in self.known]
        ours = {
            "tracked": len(state.runs),
            "response_has_error": bool(answer.get("error")),
            "entry_count": sum(len(one["taskEntry"]) for one in entries),
            "candidate_count": len(answer.get("preemptionCandidates", [])),
            "task_count_by_host": {
                host: len(one.get("tasks", [])) for host, one in answer.get("hostTasksMap", {}).items()
            },
            "orphans": orphans,
            "result_is_uuid": _is_uuid(answer.get("result", {}).get("value", "")),
            "pool": answer.get("poolinfo", {}).get("id", {}).get("value"),
            "children": len(answer.get("childPools", [])),
            "pool_count": len(answer.get("resourcePools", [])),
        }
        for name, value in ours.items():
            if name in wanted:
                theirs = sorted(wanted[name]) if name == "orphans" else wanted[name]
                yield from equal(f"{where}.{name}", value, theirs)
        for name, present in (("tracked_ids", True), ("untracked_ids", False)):
            for task_id in wanted.get(name, []):
                yield from equal(f"{where}.{name}.{task_id}", task_id in state.runs, present)
        if "new_pool_types" in wanted:
            types = {one["type"] for pool in new for one in pool["config"]["resources"]}
            yield from equal(f"{where}.new_pool_types", sorted(types), [wanted["new_pool_types"]])


def response_of(service: str, rpc: str) -> type[Message]:
    """The class of the response of an RPC."""
    name = over_grpc.SERVICES[service]
    method = descriptor_pool.Default().FindServiceByName(name).FindMethodByName(rpc)
    return message_factory.GetMessageClass(method.output_type)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
