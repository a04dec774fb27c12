"""Metrics of an engine of shared hosts: each turn, and what it has done."""

from __future__ import annotations

from typing import Any

from remuda_bus.metrics import REGISTRY
from remuda_peloton.sharing import GuestAllocation, GuestAsk, Held
from remuda_peloton.shell import shared_metrics as metrics
from remuda_peloton.shell.partition import View
from remuda_peloton.shell.shared_engine import SharedEngine
from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

APP, KEY, NODE = "@peloton.default.pool", "@peloton.default.{}", "n1"
ROW = {
    "id": NODE, "status": "Schedulable", "capacity": {"vcore": 8_000}, "occupied": {}, "attributes": {},
}  # fmt: skip


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"remuda_resmgr_shared_{name}", labels) or 0.0


class Both:
    """A partition that holds what it is told to, and a resource manager with these runs."""

    full_name = "rm-1/default"

    def __init__(self) -> None:
        self.held = Held(frozenset({APP}), (), ())
        self.runs: list[hosts_pb2.SharedRun] = []
        self.gangs: list[pb.Gang] = []
        self.shared = log_pb2.SharedHosts(name=self.full_name)
        self.hosts: list[log_pb2.Host] = []

    async def view(self) -> View:
        return View(1, (ROW,), (8.0, 0.0, 0.0, 0.0), 0.0, self.held)

    async def send(self, *_: Any) -> None:
        pass

    submit = ask = give_back = send

    async def why(self, *_: Any) -> str:
        return "no room"

    async def __call__(self, name: str, request: Any) -> Any:
        if name == "DequeueGangs":
            gangs, self.gangs = self.gangs, []
            return pb.DequeueGangsResponse(gangs=gangs)
        if name == "ShareHosts":
            self.shared.epoch, self.hosts = request.epoch, list(request.hosts) or self.hosts
            self.shared.capacity[:] = request.capacity
            return hosts_pb2.ShareHostsResponse()
        if name == "PlaceShared":
            self.shared.placed = request.number
            return hosts_pb2.PlaceSharedResponse()
        if name == "PreemptRuns":
            return hosts_pb2.PreemptRunsResponse()
        pools = [hosts_pb2.SharedPool(pool_id="pool", path="/pool", reservation=[0.0] * 4, limit=[8.0] * 4)]
        return hosts_pb2.ListSharedResponse(shared=self.shared, hosts=self.hosts, runs=self.runs, pools=pools)

    def run(self, run_id: str, state: str, host: str = "") -> None:
        self.runs.append(
            hosts_pb2.SharedRun(
                task_id=run_id, run_id=run_id, pool_id="pool", state=state, hostname=host, resource=[1.0, 0.0, 0.0, 0.0]
            )
        )

    def gang(self, run_id: str, **fields: Any) -> None:
        self.run(run_id, "PLACING")
        task = resmgr_pb2.Task(taskId=mesos.TaskID(value=run_id), **fields)
        task.id.value = run_id
        self.gangs.append(pb.Gang(tasks=[task]))


async def test_what_a_turn_has_compared_and_done() -> None:
    both, now_s = Both(), 0.0
    engine = SharedEngine(both, "default", "root.peloton", refresh_s=0.0, hold_s=1.0, clock_s=lambda: now_s)  # type: ignore[arg-type]
    counted = ("placed_tasks_total", "released_allocations_total", "turn_seconds_count")
    before = {name: value(name) for name in counted}
    failed = {reason: value("failed_gangs_total", reason=reason) for reason in (metrics.NEVER, metrics.NOT_ALLOCATED)}
    revoked = value("preempted_runs_total", cause=metrics.REVOKED)

    await engine.take_over(both)
    both.run("running", "RUNNING", NODE)
    both.run("unbacked", "RUNNING", NODE)
    both.held = Held(
        frozenset({APP}), (), (
            GuestAllocation("u1", KEY.format("running"), APP, NODE, releasing=True),
            GuestAllocation("u2", KEY.format("gone"), APP, NODE),
        ),
    )  # fmt: skip
    await engine.turn(both)
    assert (value("runs"), value("unbacked_runs"), value("allocations"), value("asks")) == (2, 1, 2, 0)
    assert value("released_allocations_total") == before["released_allocations_total"] + 1
    assert value("preempted_runs_total", cause=metrics.REVOKED) == revoked + 1

    both.runs = []
    both.held = Held(frozenset({APP}), (), ())
    await engine.turn(both)  # level: gangs are taken in the next one
    both.gang("placed")
    both.gang("waits")
    both.gang("ports", numPorts=1)
    both.held = Held(
        frozenset({APP}), (GuestAsk(KEY.format("waits"), APP),),
        (GuestAllocation("u3", KEY.format("placed"), APP, NODE),),
    )  # fmt: skip
    await engine.turn(both)
    assert value("placed_tasks_total") == before["placed_tasks_total"] + 1
    assert (value("gangs"), value("asks")) == (1, 1)
    assert value("failed_gangs_total", reason=metrics.NEVER) == failed[metrics.NEVER] + 1

    now_s = 2.0
    await engine.turn(both)
    assert value("failed_gangs_total", reason=metrics.NOT_ALLOCATED) == failed[metrics.NOT_ALLOCATED] + 1
    assert value("turn_seconds_count") == before["turn_seconds_count"] + 4 and value("turn_timestamp_seconds") > 0
