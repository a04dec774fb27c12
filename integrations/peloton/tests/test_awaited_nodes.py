"""An RM has registered again, and has not reported the nodes on which guests are."""

from __future__ import annotations

from typing import Any

from integrations.peloton.tests.test_shared_metrics import APP, KEY, NODE, ROW, Both
from remuda_peloton.sharing import GuestAllocation, Held
from remuda_peloton.shell.partition import View
from remuda_peloton.shell.shared_engine import SharedEngine
from remuda_proto.remuda.resmgr.v1 import hosts_pb2


class Reporting(Both):
    """The RM reports `rows`."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[dict[str, Any], ...] = (ROW,)
        self.calls: list[Any] = []
        self.given_back: list[GuestAllocation] = []

    async def view(self) -> View:
        return View(1, self.rows, (8.0, 0.0, 0.0, 0.0), 0.0, self.held)

    async def give_back(self, _: Any, allocations: Any, __: str) -> None:
        self.given_back += allocations

    async def __call__(self, name: str, request: Any) -> Any:
        self.calls.append(request)
        return await super().__call__(name, request)

    def asked(self, kind: type[Any]) -> list[Any]:
        found = [one for one in self.calls if isinstance(one, kind)]
        self.calls.clear()
        return found


async def test_runs_stay_where_the_core_keeps_their_allocations() -> None:
    both, now_s = Reporting(), 0.0
    engine = SharedEngine(both, "default", "root.peloton", refresh_s=0.0, hold_s=1.0, clock_s=lambda: now_s)  # type: ignore[arg-type]
    await engine.take_over(both)
    both.run("here", "RUNNING", NODE)
    both.held = Held(frozenset({APP}), (), (GuestAllocation("u1", KEY.format("here"), APP, NODE),))
    await engine.turn(both)

    both.rows = ()
    both.asked(hosts_pb2.PreemptRunsRequest)
    for later_s in (5.0, 5.9):
        now_s = later_s
        await engine.turn(both)
        told = [one for one in both.calls if isinstance(one, hosts_pb2.ShareHostsRequest)]
        assert not any(one.hosts or one.removed_hostnames for one in told)  # a host that drains is emptied
        assert not both.asked(hosts_pb2.PreemptRunsRequest)

    both.rows = (ROW,)
    await engine.turn(both)
    both.rows = ()
    now_s = 10.0
    await engine.turn(both)
    assert not both.asked(hosts_pb2.PreemptRunsRequest)
    now_s = 11.0  # it does not come back
    await engine.turn(both)
    [described] = [one for one in both.calls if isinstance(one, hosts_pb2.ShareHostsRequest)]
    assert [(one.hostname, one.draining) for one in described.hosts] == [(NODE, True)]
    [preempted] = both.asked(hosts_pb2.PreemptRunsRequest)
    assert preempted.maintenance and [one.run_id for one in preempted.runs] == ["here"]
    assert not both.given_back  # the run is still there

    both.runs = []
    await engine.turn(both)
    assert [one.uuid for one in both.given_back] == ["u1"]


async def test_a_run_whose_allocation_went_with_its_node_is_preempted_at_once() -> None:
    both = Reporting()
    engine = SharedEngine(both, "default", "root.peloton", refresh_s=0.0, hold_s=1.0, clock_s=lambda: 0.0)  # type: ignore[arg-type]
    await engine.take_over(both)
    both.run("here", "RUNNING", NODE)
    both.rows = ()
    await engine.turn(both)
    [preempted] = both.asked(hosts_pb2.PreemptRunsRequest)
    assert preempted.maintenance and [one.run_id for one in preempted.runs] == ["here"]
