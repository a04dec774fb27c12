"""Plugin mode: who is held, approved, sent back and left alone (002). Gates are those of Kubernetes 1.27 and later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integrations.kubernetes.tests.objects import annotated, sent
from integrations.kubernetes.tests.reporting_plugin import (
    DEFAULT,
    NODES,
    allocated,
    events,
    kinds,
    placed,
    plugin,
    policy,
)
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.plugin.extender import answer_filter, answer_preemption
from remuda_kubernetes.plugin.plugin import WAITING, Approve, Hold, OpenGate, Pin, PluginShim, Withhold, hold_of, pin_of
from remuda_kubernetes.shim import names, topology
from remuda_kubernetes.shim.effects import Bind, CreatePlaceholder, Effect, ReportAllocation
from remuda_kubernetes.shim.shim import STATES
from remuda_proto.si.v1 import si_pb2 as si

GATED: dict[str, Any] = {"schedulingGates": [{"name": names.GATE}]}


# Who is held


@pytest.mark.parametrize(
    ("of", "is_held"),
    [
        ({}, True),
        ({"app": ""}, False),  # no application: untouched
        ({"scheduler": "remuda"}, False),  # bound as in shim mode
        ({"scheduler": "other"}, False),
        ({"annotations": {names.IGNORE_APPLICATION: "true"}}, False),
    ],
)
def test_pods_with_an_application_are_held(of: dict[str, Any], is_held: bool) -> None:
    it = plugin()
    verdict = it.filter(placed("p", **of), NODES)
    assert (list(verdict.nodes), verdict.reason) == (([], WAITING) if is_held else (NODES, ""))


def test_pod_without_an_application_counts_as_occupied() -> None:
    it = plugin()
    it.pod_changed(placed("p", app="", node="n1"))
    assert kinds(it.take()) == ["ReportNode"]


def test_pods_that_are_not_held_are_woken_at_the_start() -> None:
    """While no extender answered, the default scheduler has given them up for a minute or more."""
    it = PluginShim(policy(Hold.EXTENDER))
    it.pod_changed(placed("p", app=""))
    it.pod_changed(placed("other", app="", scheduler="another"))
    it.report()
    assert [effect.pod.name for effect in it.take() if isinstance(effect, Approve)] == ["p"]


def test_pods_of_the_own_scheduler_name_are_bound_beside() -> None:
    it = plugin()
    it.pod_changed(placed("p", scheduler="remuda"))
    it.take()
    allocated(it, "p")
    assert "Bind" in kinds(it.take())


NO_MORE = [{"app": ""}, {"annotations": {names.IGNORE_APPLICATION: "true"}}]


@pytest.mark.parametrize("changed", NO_MORE)
def test_pod_that_waits_stays_held_whatever_its_labels_become(changed: dict[str, Any]) -> None:
    """A tenant may change labels. With a gate, this front end alone can let the pod go; it cannot be bound."""
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", **GATED))
    it.pod_changed(placed("p", **GATED | changed))
    it.take()
    allocated(it, "p")
    assert kinds(it.take()) == ["OpenGate"]
    it = plugin()
    it.pod_changed(placed("p"))
    it.pod_changed(placed("p", **changed))
    assert not it.filter(placed("p", **changed), NODES).nodes
    assert not it.may_preempt(placed("p", **changed))
    it.take()
    allocated(it, "p")
    assert kinds(it.take()) == ["Approve"]
    assert it.filter(placed("p", **changed), NODES).nodes == ("n1",)


@pytest.mark.parametrize("changed", NO_MORE)
def test_pod_with_the_gate_is_held_after_a_restart_too(changed: dict[str, Any]) -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", **GATED | changed))
    assert kinds(it.take()) == ["Submit", "Ask"]
    allocated(it, "p")
    assert kinds(it.take()) == ["OpenGate"]


def test_pod_that_is_not_held_stays_so_whatever_its_labels_become() -> None:
    """Nobody has asked for it, so it would wait for ever."""
    it = plugin()
    it.pod_changed(placed("p", app=""))
    it.pod_changed(placed("p"))
    assert it.filter(placed("p"), NODES).nodes == NODES


# The extender


def test_allocated_pod_is_approved_for_its_node_until_it_is_bound() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    assert kinds(it.take()) == ["Submit", "Ask"]
    allocated(it, "p")
    effects = it.take()
    assert Approve(it.cache.pods["uid-p"].name, "n1") in effects
    assert "QuotaApproved" in events(effects)
    assert it.filter(placed("p"), NODES).nodes == ("n1",)
    it.pod_changed(placed("p", node="n1"))
    assert kinds(it.take()) == []
    assert it.filter(placed("p"), NODES).nodes == ()  # PostBind has forgotten it


def test_reason_of_the_scheduler_is_that_of_the_extender() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    it.take()
    it.scheduling_state(
        si.UpdateContainerSchedulingStateRequest(allocationKey="uid-p", state=STATES.SKIPPED, reason="quota of root.a")
    )
    effects = it.take()
    assert Withhold(it.cache.pods["uid-p"].name, "SchedulingSkipped", "quota of root.a") in effects
    assert it.filter(placed("p"), NODES).reason == "quota of root.a"


def test_allocation_that_is_preempted_ends_the_approval() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    release = si.AllocationRelease(
        allocationKey="uid-p", UUID="u-p", terminationType=si.PREEMPTED_BY_SCHEDULER, applicationID="default.app"
    )
    it.allocation(si.AllocationResponse(released=[release]))
    it.take()
    assert it.filter(placed("p"), NODES).nodes == ()


def test_preemption_behind_the_scheduler_is_refused() -> None:
    it = plugin()
    victims = {"n1": {"Pods": [{"UID": "uid-v"}], "NumPDBViolations": 1}}

    def asked(app: str) -> Any:
        body = {
            "Pod": sent("p", app=app, scheduler=DEFAULT),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": victims,
        }
        return answer_preemption(it, json.dumps(body).encode())["NodeNameToMetaVictims"]

    assert asked("app") == {}
    assert asked("") == victims


def test_filter_names_the_reason_for_each_node() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p", "n2")
    it.take()
    body = json.dumps({"Pod": sent("p", app="app", scheduler=DEFAULT), "Nodes": None, "NodeNames": NODES}).encode()
    answer = answer_filter(it, body)
    assert (answer["NodeNames"], answer["Error"]) == (["n2"], "")
    assert list(answer["FailedNodes"]) == ["n1"]


def test_filter_with_whole_nodes_is_an_error() -> None:
    body = json.dumps({"Pod": sent("p", app="app", scheduler=DEFAULT), "Nodes": {"items": []}}).encode()
    assert "nodeCacheCapable" in answer_filter(plugin(), body)["Error"]


# Gates


def opened(effects: list[Any]) -> OpenGate:
    (found,) = [effect for effect in effects if isinstance(effect, OpenGate)]
    return found


def test_gated_pod_is_asked_for_and_its_gate_removed() -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", **GATED))
    assert kinds(it.take()) == ["Submit", "Ask"]
    allocated(it, "p")
    call = opened(it.take())
    assert (call.pod.uid, call.node, call.pin) == ("uid-p", "n1", Pin.HARD)
    it.pod_changed(placed("p", node="n1"))
    assert kinds(it.take()) == []


def test_gates_of_others_come_first() -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", schedulingGates=[{"name": "other"}, {"name": names.GATE}]))
    assert kinds(it.take()) == []
    it.pod_changed(placed("p", **GATED))
    assert kinds(it.take()) == ["Submit", "Ask"]


def test_namespace_chooses_the_pin() -> None:
    it = plugin(Hold.GATES)
    for said, pin in (("soft", Pin.SOFT), ("free", Pin.FREE), ("odd", Pin.HARD)):
        it.namespace_changed(annotated(Namespace, "default", {names.PIN: said}))
        it.pod_changed(placed(said, **GATED))
        allocated(it, said)
        assert opened(it.take()).pin is pin


def test_soft_pin_is_one_call_unless_the_node_has_to_be_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preferred node counts only if the default scheduler looks at all nodes, and nothing else is at stake."""
    it = plugin(Hold.GATES)
    it.namespace_changed(annotated(Namespace, "default", {names.PIN: "soft"}))

    def nominates(name: str, **annotations: str) -> bool:
        it.pod_changed(placed(name, **GATED, annotations=annotations))
        allocated(it, name)
        return opened(it.take()).nominates

    assert not nominates("plain")
    assert nominates("rack", **{topology.REQUIRED: "rack"})
    assert nominates("member", **{names.TASK_GROUP: "workers"})
    monkeypatch.setattr(limits, "ALL_NODES_SCORED_BELOW", len(it.cache.nodes))
    assert nominates("of-many")


def test_booking_follows_a_pod_that_is_bound_elsewhere() -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", **GATED))
    allocated(it, "p")
    it.take()
    it.pod_changed(placed("p", node="n2"))
    (report,) = [effect for effect in it.take() if isinstance(effect, ReportAllocation)]
    assert report.allocation.nodeID == "n2"


def test_open_gate_without_a_binding_is_reported_once_and_keeps_the_quota() -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p", **GATED))
    allocated(it, "p")
    it.pod_changed(placed("p"))
    it.take()
    found: list[Effect | Any] = []
    for _ in range(2 * limits.APPROVAL_SWEEPS):
        it.sweep()
        found += it.take()
    assert (kinds(found), events(found)) == ([], ["PlacementOverdue"])


def test_pod_that_was_never_gated_is_booked_only() -> None:
    it = plugin(Hold.GATES)
    it.pod_changed(placed("p"))
    allocated(it, "p")
    assert [kind for kind in kinds(it.take()) if kind in ("OpenGate", "Bind")] == []


def test_placeholders_are_gated() -> None:
    it = plugin(Hold.GATES)
    groups = json.dumps([{"name": "g", "minMember": 1, "minResource": {"cpu": "1"}}])
    it.pod_changed(placed("p", annotations={names.TASK_GROUPS: groups}, **GATED))
    it.take()
    it.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")]))
    (created,) = [effect for effect in it.take() if isinstance(effect, CreatePlaceholder)]
    assert created.manifest["spec"]["schedulingGates"] == GATED["schedulingGates"]
    assert created.manifest["spec"]["schedulerName"] == DEFAULT


# Versions


@pytest.mark.parametrize(
    ("minor", "hold", "pin"),
    [
        ("20", "extender", "hard"),
        ("26+", "extender", "hard"),
        ("27", "gates", "hard"),
        ("36", "gates", "soft"),
        ("", "extender", "hard"),
    ],
)
def test_version_of_the_api_server_chooses(minor: str, hold: str, pin: str) -> None:
    version = {"major": "1", "minor": minor}
    assert (hold_of("auto", version), pin_of("auto", version)) == (hold, pin)


def test_settings_choose_before_the_version() -> None:
    version = {"major": "1", "minor": "36"}
    assert (hold_of("extender", version), pin_of("free", version)) == ("extender", "free")


def test_bind_is_not_an_effect_for_pods_of_the_default_scheduler() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    assert not any(isinstance(effect, Bind) for effect in it.take())
