"""Conditions and events of pods that wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.shim.effects import RecordEvent, SetCondition
from remuda_kubernetes.shim.shim import STATES
from remuda_operations.queries.rows import Forecast
from remuda_proto.si.v1 import si_pb2 as si


def test_condition_is_said_again_after_a_binding_that_failed() -> None:
    """The API server may have another one by then."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app"))
    full = STATES(allocationKey="uid-p", state=STATES.FAILED, reason="full")
    for _ in range(2):
        it.scheduling_state(full)
        assert [effect.message for effect in it.take() if isinstance(effect, SetCondition)] == ["full"]
        it.allocation(si.AllocationResponse(new=[si.Allocation(allocationKey="uid-p", UUID="u", nodeID="n1")]))
        it.binding_failed("uid-p", "n1", "no")
        it.take()


def test_pod_is_told_once_which_gates_it_waits_for() -> None:
    """Other changes of it say nothing new: each event is a call of the API."""
    it = shim()
    for gates, labels in ((["a", "b"], {}), (["a", "b"], {"more": ""}), (["b"], {}), (["b"], {"more": ""})):
        it.pod_changed(pod("p", app="app", labels=labels, schedulingGates=[{"name": gate} for gate in gates]))
    notes = [effect.note for effect in it.take() if isinstance(effect, RecordEvent)]
    assert notes == ["waiting for scheduling gates: a, b", "waiting for scheduling gates: b"]


@pytest.mark.parametrize(
    ("phase", "reason", "told"),
    [
        ("Succeeded", "", ["TaskCompleted: default/p has completed"]),
        ("Failed", "", ["TaskFailed: default/p has failed"]),
        ("Failed", "Evicted", ["TaskFailed: default/p has failed: Evicted"]),
        ("Running", "", []),
    ],
)
def test_how_a_pod_ended_is_told_once(phase: str, reason: str, told: list[str]) -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", node="n1"))
    it.take()
    over = pod("p", app="app", node="n1", phase=phase)
    over = replace(over, status=replace(over.status, reason=reason))
    it.pod_changed(over)
    it.pod_gone(over)
    events = [effect for effect in it.take() if isinstance(effect, RecordEvent)]
    assert [f"{one.reason}: {one.note}" for one in events] == told


def test_end_of_a_pod_that_was_not_placed_is_none_of_the_scheduler() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app"))
    it.pod_changed(pod("other", node="n1", schedulerName="default"))
    it.take()
    it.pod_changed(pod("p", app="app", phase="Failed"))
    it.pod_changed(pod("other", node="n1", schedulerName="default", phase="Succeeded"))
    assert not [effect for effect in it.take() if isinstance(effect, RecordEvent)]


def test_forecast_of_a_pod_is_told_when_it_has_changed_by_a_quarter() -> None:
    """At most every five minutes, and never a number that is not known."""
    it, now_ms, minute = shim("n1"), 1_000_000_000, 60_000
    it.pod_changed(pod("p", app="app"))
    it.take()

    def told(minutes: float, **of: Any) -> list[str]:
        median = now_ms + int(minutes * minute)
        interval = {"median_ms": median, "from_ms": median - minute, "until_ms": median + 30 * minute}
        row: dict[str, Any] = {
            "application": "app",
            "key": "uid-p",
            "queue": "root.a",
            "position": 3,
            "held": 405,
            "of": 500,
        }
        it.forecast([Forecast(**{**row, **interval, **of}), Forecast(application="app", key="other")], now_ms)
        return [f"{one.reason}: {one.note}" for one in it.take() if isinstance(one, RecordEvent)]

    assert told(40, median_ms=0, unknown="no node is large enough") == []
    assert told(40) == [
        "StartForecast: position 3 in root.a, starts in 40 min "
        "(four of five times in 39 min to 1 h 10 min; 81 % of the last 500 such intervals have held)"
    ]
    it.cache.sweeps += limits.FORECAST_SWEEPS
    assert told(40) == told(50) == told(30) == []
    assert told(50.1) != []
    it.cache.sweeps += limits.FORECAST_SWEEPS - 1
    assert told(10) == []
    it.cache.sweeps += 1
    assert told(10) != []
    it.allocation(si.AllocationResponse(new=[si.Allocation(allocationKey="uid-p", UUID="u", nodeID="n1")]))
    it.take()
    it.cache.sweeps += limits.FORECAST_SWEEPS
    assert told(90) == [], "it waits no more"
