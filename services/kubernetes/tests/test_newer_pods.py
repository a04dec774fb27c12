"""Pods with what the API server of the suite does not know yet, as newer ones report them."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Ask, Effect, RecordEvent, ReportNode, SetCondition
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si
from services.kubernetes.tests.reporting_plugin import allocated, kinds, placed, plugin
from services.kubernetes.tests.reporting_shim import shim
from tests.kubernetes.objects import pod

CLAIMS: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
PORTS = [{"containerPort": 80, "hostPort": 80}]


def messages_to_the_scheduler(effects: list[Effect]) -> list[Effect]:
    return [one for one in effects if not isinstance(one, RecordEvent | SetCondition)]


# Dynamic resource allocation, from 1.34


@pytest.mark.parametrize("predicates", [True, False])
def test_pod_with_claims_is_not_asked_for(predicates: bool) -> None:
    """Bound without them, it would stay on its node without ever starting."""
    it = shim("n1", predicates=predicates)
    it.pod_changed(pod("p", app="app", **CLAIMS))
    effects = it.take()
    assert not [one for one in effects if isinstance(one, Ask)]
    (told,) = [one for one in effects if isinstance(one, SetCondition)]
    assert told.reason == "Unschedulable"
    assert "resourceClaims" in told.message
    assert "FailedScheduling" in [one.reason for one in effects if isinstance(one, RecordEvent)]
    it.pod_changed(pod("p", app="app", **CLAIMS))
    assert it.take() == []  # it is told once


def test_pod_with_claims_that_runs_already_is_booked() -> None:
    it = Shim(shim().books.policy)
    it.pod_changed(pod("p", app="app", cpu="1", node="n1", **CLAIMS))
    it.node_changed(shim("n1").books.nodes["n1"].node)
    it.report()
    (reported,) = [one for one in it.take() if isinstance(one, ReportNode)]
    assert [one.allocationKey for one in reported.node.existingAllocations] == ["uid-p"]


def test_default_scheduler_allocates_the_claims_of_the_pods_that_it_places() -> None:
    it = plugin()
    it.pod_changed(placed("p", **CLAIMS))
    assert "Ask" in kinds(it.take())
    allocated(it, "p")
    assert "Approve" in kinds(it.take())
    it.pod_changed(placed("ours", scheduler="remuda", **CLAIMS))
    assert "Ask" not in kinds(it.take())


# Side-cars, from 1.29


def test_host_port_of_a_side_car_is_in_use() -> None:
    it = shim("n1")
    sidecar = {"name": "s", "image": "none", "restartPolicy": "Always", "ports": PORTS}
    before = {"name": "s", "image": "none", "ports": PORTS}
    it.pod_changed(pod("there", node="n1", initContainers=[sidecar]))
    it.pod_changed(pod("p", app="app", containers=[{"name": "c", "image": "none", "ports": PORTS}]))
    it.pod_changed(pod("q", app="app", initContainers=[sidecar]))
    it.pod_changed(pod("r", app="app", initContainers=[before]))
    refusals = [it.predicates.refusal(f"uid-{name}", "n1") for name in "pqr"]
    assert refusals == ["host port 80/TCP is in use"] * 2 + [""]


def test_pods_whose_side_cars_have_host_ports_get_a_node_each() -> None:
    it = shim("n1", "n2")
    sidecar = {"name": "s", "image": "none", "restartPolicy": "Always", "ports": PORTS}
    found = []
    for name in "pqr":
        it.pod_changed(pod(name, app="app", initContainers=[sidecar]))
        (ask,) = [one.ask for one in it.take() if isinstance(one, Ask)]
        verdicts = it.questions.verdicts(ask.allocationKey, ask.tags[names.TAG_PREDICATE_CLASS], ["n1", "n2"])
        found += [one.node_id for one in verdicts if one.accepted]
    assert found == ["n1", "n2"]


# Resizes in place, from 1.33


def test_running_pod_that_is_resized_keeps_its_booking() -> None:
    """So its queue does not see what it uses more. Who may do that has the right `pods/resize`."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app", cpu="1"))
    it.allocation(si.AllocationResponse(new=[si.Allocation(allocationKey="uid-p", UUID="u-p", nodeID="n1")]))
    it.pod_changed(pod("p", app="app", cpu="1", node="n1"))
    it.take()
    it.pod_changed(pod("p", app="app", cpu="3", node="n1"))
    assert messages_to_the_scheduler(it.take()) == []


def test_resized_pod_of_another_scheduler_occupies_what_it_has() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", scheduler="other", cpu="1", node="n1"))
    it.take()
    it.pod_changed(pod("p", scheduler="other", cpu="3", node="n1"))
    (reported,) = [one for one in it.take() if isinstance(one, ReportNode)]
    assert reported.node.occupiedResource.resources["vcore"].value == 3_000
