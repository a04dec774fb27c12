"""Pods with what the API server of the suite does not know yet, as newer ones report them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_plugin import allocated, kinds, placed, plugin
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import messages, names
from remuda_kubernetes.shim.effects import Ask, Effect, RecordEvent, Release, ReportNode, SetCondition
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, KeptState, NodeRow
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

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
    it = Shim(shim().cache.policy)
    it.pod_changed(pod("p", app="app", cpu="1", node="n1", **CLAIMS))
    it.node_changed(shim("n1").cache.nodes["n1"].node)
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


def occupied(effects: list[Effect]) -> dict[str, int]:
    """As it was reported, by the only message."""
    (reported,) = messages_to_the_scheduler(effects)
    assert isinstance(reported, ReportNode)
    return messages.amounts(reported.node.occupiedResource)


def running(it: Shim, name: str = "p", cpu: str = "1") -> Shim:
    it.pod_changed(pod(name, app="app", cpu=cpu))
    booked = messages.resource({"vcore": int(cpu) * 1_000, "pods": 1})
    new = si.Allocation(allocationKey=f"uid-{name}", UUID=f"u-{name}", nodeID="n1", resourcePerAlloc=booked)
    it.allocation(si.AllocationResponse(new=[new]))
    it.pod_changed(pod(name, app="app", cpu=cpu, node="n1"))
    it.take()
    return it


def test_what_a_running_pod_has_grown_by_is_occupied() -> None:
    """Its allocation stays as it is: so its queue does not see it, but no other pod gets that room."""
    it = running(shim("n1"))
    it.pod_changed(pod("p", app="app", cpu="3", memory="1Gi", node="n1"))
    assert occupied(it.take()) == {"vcore": 2_000, "memory": 2**30}
    it.pod_changed(pod("p", app="app", cpu="2", node="n1"))
    assert occupied(it.take()) == {"vcore": 1_000, "memory": 0}
    it.pod_changed(pod("p", app="app", cpu="1", node="n1"))
    assert occupied(it.take()) == {"vcore": 0}
    it.pod_changed(pod("p", app="app", node="n1"))
    assert messages_to_the_scheduler(it.take()) == []  # its allocation is not made smaller


def test_room_of_a_pod_that_had_grown_is_free_when_it_has_ended() -> None:
    it = running(shim("n1"))
    it.pod_changed(pod("p", app="app", cpu="3", node="n1"))
    it.take()
    it.pod_gone(pod("p", app="app", cpu="3", node="n1"))
    release, *rest = messages_to_the_scheduler(it.take())
    assert isinstance(release, Release)
    assert occupied(rest) == {"vcore": 0}


def test_pods_that_have_grown_occupy_beside_those_of_other_schedulers() -> None:
    it = running(running(shim("n1")), "q")
    it.pod_changed(pod("other", scheduler="other", cpu="1", node="n1"))
    it.pod_changed(pod("p", app="app", cpu="2", node="n1"))
    it.pod_changed(pod("q", app="app", cpu="4", node="n1"))
    assert occupied(it.take()) == {"vcore": 5_000, "pods": 1}


def test_resize_that_waits_for_room_counts_and_one_that_is_infeasible_does_not() -> None:
    def resized(reason: str) -> Pod:
        one = msgspec.to_builtins(pod("p", app="app", cpu="3", node="n1"))
        one["status"] |= {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        }
        return msgspec.convert(one, Pod)

    it = running(shim("n1"))
    it.pod_changed(resized("Infeasible"))
    assert messages_to_the_scheduler(it.take()) == []
    it.pod_changed(resized("Deferred"))
    assert occupied(it.take()) == {"vcore": 2_000}


def test_what_a_pod_has_grown_by_is_known_after_a_restart() -> None:
    it = Shim(shim().cache.policy)
    it.node_changed(node("n1"))
    it.pod_changed(pod("p", app="app", cpu="3", node="n1"))
    allocation = AllocationRow("u-p", "default.app", "uid-p", "n1", resource={"vcore": 1_000, "pods": 1})
    row = NodeRow("n1", {"ready": "true"}, {"vcore": 4_000, "memory": 2**33, "pods": 110}, status="Schedulable")
    it.resume(KeptState([row], [ApplicationRow("default.app", "Running")], [], [allocation]))
    assert occupied([one for one in it.take() if isinstance(one, ReportNode)]) == {"vcore": 2_000}


def test_pod_that_is_reported_afresh_is_booked_as_large_as_it_is() -> None:
    it = running(shim("n1"))
    it.pod_changed(pod("p", app="app", cpu="3", node="n1"))
    it.take()
    it.report()
    (reported,) = [one for one in it.take() if isinstance(one, ReportNode)]
    (existing,) = reported.node.existingAllocations
    assert messages.amounts(existing.resourcePerAlloc) == {"vcore": 3_000, "pods": 1}
    assert messages.amounts(reported.node.occupiedResource) == {}
    it.pod_changed(pod("p", app="app", cpu="4", node="n1"))
    assert occupied(it.take()) == {"vcore": 1_000}


SIZES = st.integers(0, 5).map(str)


@given(st.lists(st.tuples(st.sampled_from("pqo"), SIZES, st.sampled_from(["resize", "end", "report"])), max_size=12))
def test_room_of_a_node_is_never_booked_twice(steps: list[tuple[str, str, str]]) -> None:
    """What is booked and what is occupied are together as much as the pods there have, at least."""
    it = running(running(shim("n1")), "q")
    it.pod_changed(pod("o", scheduler="other", cpu="1", node="n1"))
    sizes = {"p": 1_000, "q": 1_000, "o": 1_000}
    booked, taken = {"p": 1_000, "q": 1_000}, 0
    for name, cpu, step in steps:
        if name in sizes and step == "end":
            del sizes[name]
            it.pod_gone(it.cache.pods[f"uid-{name}"].pod)
        elif name in sizes and step == "resize":
            sizes[name] = int(cpu) * 1_000
            of = {"scheduler": "other"} if name == "o" else {"app": "app"}
            it.pod_changed(pod(name, cpu=cpu, node="n1", **of))  # type: ignore[arg-type]
        elif step == "report":
            booked, taken = {}, 0
            it.report()
        for effect in it.take():
            match effect:
                case Release(release):
                    del booked[release.allocationKey.removeprefix("uid-")]
                case ReportNode(info):
                    for one in info.existingAllocations:
                        booked[one.allocationKey.removeprefix("uid-")] = one.resourcePerAlloc.resources["vcore"].value
                    if "vcore" in info.occupiedResource.resources:
                        taken = info.occupiedResource.resources["vcore"].value
        above = sum(max(size - booked.get(name, 0), 0) for name, size in sizes.items())
        assert taken == above
        assert sum(booked.values()) + taken >= sum(sizes.values())


def test_resized_pod_of_another_scheduler_occupies_what_it_has() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", scheduler="other", cpu="1", node="n1"))
    it.take()
    it.pod_changed(pod("p", scheduler="other", cpu="3", node="n1"))
    (reported,) = [one for one in it.take() if isinstance(one, ReportNode)]
    assert reported.node.occupiedResource.resources["vcore"].value == 3_000
