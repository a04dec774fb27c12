"""Claims that bind after their pod was placed: which volume they get, and what happens until they have it."""

from __future__ import annotations

from typing import Any

import pytest

from integrations.kubernetes.tests.late_claims import (
    NO_PROVISIONER,
    allocated,
    claim,
    feasible,
    given_to,
    kept,
    near,
    storage_class,
    volume,
    with_claims,
)
from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Volume
from remuda_kubernetes.shim.effects import Ask, Bind, BindVolumes, RecordEvent, Release
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, KeptState, NodeRow
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si


def local(*volumes: Volume, **of: Any) -> Shim:
    """A pod with a claim of volumes that are there."""
    it = shim("n1", "n2")
    it.volumes.class_changed(storage_class(provisioner=NO_PROVISIONER))
    it.volumes.claim_changed(claim(**of))
    for one in volumes:
        it.volumes.volume_changed(one)
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.take()
    return it


def made() -> Shim:
    """A pod with a claim whose volume is made for a node."""
    it = shim("n1", "n2")
    it.volumes.class_changed(storage_class())
    it.volumes.claim_changed(claim())
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.take()
    return it


def asked_for_class(of: Shim) -> str:
    (ask,) = kept(of, Ask)
    return str(ask.ask.tags["remuda/predicateClass"])


# Which volume


def chosen(of: Shim, on: str = "n1") -> list[str]:
    calls = allocated(of, on)
    return [one.metadata.name for call in calls if isinstance(call, BindVolumes) for one, _ in call.reserved]


@pytest.mark.parametrize(
    ("wrong", "of"),
    [
        (volume("w", "1Mi"), {}),
        (volume("w", storageClassName="slow"), {}),
        (volume("w", phase="Released"), {}),
        (volume("w", phase="Pending"), {}),
        (volume("w", phase=""), {}),
        (volume("w", volumeMode="Block"), {}),
        (volume("w", accessModes=["ReadOnlyMany"]), {"accessModes": ["ReadWriteOnce"]}),
        (volume("w", labels={"kind": "ssd"}), {"selector": {"matchLabels": {"kind": "disk"}}}),
        (volume("w", **near("n3")), {}),
        (volume("w", **given_to("another")), {}),
        (volume("w", **given_to("c", "an earlier one")), {}),
        (volume("w", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {}),
    ],
    ids=[
        "small", "class", "released", "pending", "new", "mode", "access", "selector", "elsewhere", "another's",
        "earlier", "deleted",
    ],
)  # fmt: skip
def test_volume_that_does_not_suit_the_claim(wrong: Volume, of: dict[str, Any]) -> None:
    it = local(wrong, **of)
    assert feasible(it) == set()
    right = {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "labels": {"kind": "disk"}}
    it.volumes.volume_changed(volume("right", "2Gi", **right))  # type: ignore[arg-type]
    assert feasible(it) == {"n1", "n2"}
    assert chosen(it) == ["right"]


def test_volume_that_is_reserved_for_the_claim_comes_before_smaller_ones() -> None:
    it = local(volume("small"), volume("reserved", "9Gi", **given_to("c"), **near("n1")))
    assert feasible(it) == {"n1"}  # the small one is not looked at
    assert chosen(it) == ["reserved"]


def test_reserved_volume_needs_no_selector_but_the_size() -> None:
    some = {"accessModes": ["ReadWriteOnce"], "selector": {"matchLabels": {"kind": "disk"}}}
    assert feasible(local(volume("v", **given_to("c")), **some)) == {"n1", "n2"}
    assert feasible(local(volume("v", "1Mi", **given_to("c")), **some)) == set()
    assert feasible(local(volume("v", **given_to("c"), storageClassName="slow"), **some)) == set()


def test_class_of_an_annotation_counts_before_the_field() -> None:
    beta = {"volume.beta.kubernetes.io/storage-class": "fast"}
    it = local(
        volume("v", storageClassName="slow", metadata={"annotations": beta}), of="", metadata={"annotations": beta}
    )
    assert feasible(it) == {"n1", "n2"}


def test_zone_in_the_labels_of_a_volume_counts_when_it_is_bound() -> None:
    """As for the default scheduler. Who makes a volume that is free gives it an affinity."""
    zone = "topology.kubernetes.io/zone"
    in_a: dict[str, Any] = {zone: "a"}
    in_b: dict[str, Any] = {zone: "b"}
    it = local(volume("v", labels=in_a))
    it.node_changed(node("n1", **in_a))
    it.node_changed(node("n2", **in_b))
    assert feasible(it) == {"n1", "n2"}
    it.volumes.claim_changed(claim("v"))
    assert feasible(it) == {"n1"}


def test_smallest_claim_chooses_first() -> None:
    it = local(volume("v1", "1Gi"), volume("v2", "9Gi"))
    it.volumes.claim_changed(claim(name="large", size="2Gi"))
    it.pod_changed(pod("q", app="app", **with_claims("large", "c", "c")))
    (call,) = allocated(it, "n1", "q")
    assert isinstance(call, BindVolumes)
    assert [(one.metadata.name, of.metadata.name) for one, of in call.reserved] == [("v1", "c"), ("v2", "large")]


# Volumes that are reserved


def test_two_pods_that_are_placed_at_once_get_different_volumes() -> None:
    """Before the API server has reported either."""
    it = local(volume("v1"), volume("v2"), volume("v3", phase="Released"))
    for name in ("q", "r"):
        it.volumes.claim_changed(claim(name=f"c-{name}"))
        it.pod_changed(pod(name, app="app", **with_claims(f"c-{name}")))
    it.take()
    found = [call for name in "pq" for call in allocated(it, "n1", name)]
    assert [one.metadata.name for call in found for one, _ in call.reserved] == ["v1", "v2"]  # type: ignore[union-attr]
    assert [type(one) for one in allocated(it, "n1", "r")] == [Release]
    assert it.predicates.refusal("uid-r", "n1") == "no volume for claim c-r is there"


def test_report_that_does_not_show_the_reservation_yet_changes_nothing() -> None:
    it = local(volume("v1"))
    allocated(it, "n1")
    it.volumes.volume_changed(volume("v1", labels={"changed": "meanwhile"}))
    it.volumes.claim_changed(claim(name="other"))
    it.pod_changed(pod("q", app="app", **with_claims("other")))
    assert feasible(it, "q") == set()


def test_volume_that_could_not_be_reserved_is_free_for_others() -> None:
    it = local(volume("v1"))
    (call,) = allocated(it, "n1")
    assert isinstance(call, BindVolumes)
    it.volumes.claim_changed(claim(name="other"))
    it.pod_changed(pod("q", app="app", **with_claims("other")))
    it.take()
    it.volumes_failed(call, "the volume has changed")
    assert [type(one) for one in kept(it, Release, Ask)] == [Release, Ask]
    assert feasible(it, "q") == {"n1", "n2"}


def test_failure_of_an_earlier_node_does_not_end_the_present_binding() -> None:
    it = local(volume("v1", **near("n1")), volume("v2", **near("n2")))
    (call,) = allocated(it, "n1")
    assert isinstance(call, BindVolumes)
    it.volumes_failed(call, "conflict")
    it.take()
    again = allocated(it, "n2", uuid="v")[-1]
    assert isinstance(again, BindVolumes) and again.node == "n2"
    it.volumes_failed(call, "conflict")
    assert not kept(it, Release, Ask)


def test_pods_of_one_late_claim_get_one_volume() -> None:
    it = local(volume("v1", **near("n1")), volume("v2", **near("n2")))
    it.pod_changed(pod("q", app="app", **with_claims("c")))
    it.take()
    allocated(it, "n1")
    assert feasible(it, "q") == {"n1"}
    (call,) = allocated(it, "n1", "q")
    assert isinstance(call, BindVolumes)
    assert [one.metadata.name for one, _ in call.reserved] == ["v1"]
    it.volumes.volume_changed(volume("v1", **near("n1"), **given_to("c", "uid-c"), phase="Bound"))
    it.volumes.claim_changed(claim("v1"))
    assert {(one.pod.name, one.node) for one in kept(it, Bind)} == {("p", "n1"), ("q", "n1")}


def test_claim_that_got_a_volume_elsewhere_has_its_pod_placed_again() -> None:
    it = local(volume("v1", **near("n1")), volume("v2", **near("n2")))
    allocated(it, "n1")
    it.volumes.volume_changed(volume("v2", **near("n2"), **given_to("c", "uid-c"), phase="Bound"))
    it.volumes.claim_changed(claim("v2"))
    assert [type(one) for one in kept(it, Bind, Release, Ask)] == [Release, Ask]
    assert feasible(it) == {"n2"}


def test_claim_that_is_deleted_meanwhile_has_its_pod_placed_again() -> None:
    it = local(volume("v1"))
    allocated(it, "n1")
    it.volumes.claim_gone(claim())
    assert [type(one) for one in kept(it, Bind, Release, Ask)] == [Release]
    assert it.cache.storage.waits_for(it.cache.pods["uid-p"].pod) == "claim c does not exist"
    assert not it.cache.storage.reserved


def test_pod_is_bound_when_the_volume_of_its_claim_is_known() -> None:
    """Reports about claims and volumes come in any order."""
    it = made()
    allocated(it, "n1")
    it.volumes.claim_changed(claim("v1", selected="n1"))
    assert not kept(it, Bind, Release)
    it.volumes.volume_changed(volume("v1", **near("n1"), **given_to("c", "uid-c"), phase="Bound"))
    assert [one.node for one in kept(it, Bind)] == ["n1"]


def test_volume_that_a_user_wants_is_waited_for() -> None:
    """The controller of volumes binds it, before its pod is placed."""
    it = local(volume("v1"), volumeName="v1")
    assert it.predicates.refusal("uid-p", "n1") == "claim c is not bound to a volume yet"


# Volumes that are made


def test_volume_is_made_for_one_node() -> None:
    it = made()
    it.pod_changed(pod("q", app="app", **with_claims("c")))
    it.take()
    allocated(it, "n1")
    assert feasible(it, "q") == {"n1"}  # not reported yet
    it.volumes.claim_changed(claim(selected="n1"))
    assert feasible(it, "q") == {"n1"}
    assert it.predicates.refusal("uid-q", "n2") == "the volume of claim c is made for node n1"
    assert not allocated(it, "n1", "q")  # the annotation is there already


def test_node_that_a_provisioner_refuses_is_not_tried_again_for_a_while() -> None:
    it = made()
    allocated(it, "n1")
    it.volumes.claim_changed(claim(selected="n1"))
    assert not kept(it, Release, Ask)
    it.volumes.claim_changed(claim())
    effects = it.take()
    assert "PodVolumesBindFailure" in [one.reason for one in effects if isinstance(one, RecordEvent)]
    release, ask = (one for one in effects if isinstance(one, Release | Ask))
    assert isinstance(release, Release) and isinstance(ask, Ask)

    def accepted(ask: Ask) -> list[str]:
        asked = it.questions.verdicts("uid-p", ask.ask.tags["remuda/predicateClass"], ["n1", "n2"])
        return [one.node_id for one in asked if one.accepted]

    assert accepted(ask) == ["n2"]
    for _ in range(limits.UNFIT_SWEEPS + limits.AGREEMENT_SWEEPS):
        it.sweep()
    asks = kept(it, Ask)
    assert accepted(asks[-1]) == ["n1"]


def test_pod_that_is_preempted_meanwhile_is_not_asked_for_again() -> None:
    it = made()
    allocated(it, "n1")
    it.volumes.claim_changed(claim(selected="n1"))
    released = si.AllocationRelease(
        allocationKey="uid-p", UUID="u-p", applicationID="default.app", terminationType=si.PREEMPTED_BY_SCHEDULER
    )
    it.allocation(si.AllocationResponse(released=[released]))
    it.take()
    it.volumes.claim_changed(claim())
    assert not kept(it, Release, Ask)
    it.pod_gone(pod("p", app="app", **with_claims("c")))
    assert [one.release.terminationType for one in kept(it, Release)] == [si.PREEMPTED_BY_SCHEDULER]


def test_annotation_that_is_replaced_by_a_volume_is_no_refusal() -> None:
    it = made()
    allocated(it, "n1")
    it.volumes.claim_changed(claim(selected="n1"))
    it.volumes.volume_changed(volume("v1", **given_to("c", "uid-c"), phase="Bound"))
    it.volumes.claim_changed(claim("v1"))
    assert [type(one) for one in kept(it, Bind, Release, Ask)] == [Bind]


def test_node_that_was_selected_counts_no_more_when_the_time_is_over() -> None:
    """An annotation that came and went without a report would keep the pod there for ever."""
    it = made()
    allocated(it, "n1")
    assert feasible(it) == {"n1"}
    for _ in range(int(it.cache.policy.volume_sweeps) + 2):
        it.sweep()
    assert feasible(it) == {"n1", "n2"}
    it.volumes.claim_changed(claim(selected="n1"))
    assert feasible(it) == {"n1"}


@pytest.mark.parametrize("how", ["released", "ended", "registered"])
def test_node_that_was_selected_counts_no_more_when_its_pod_has_lost_it(how: str) -> None:
    """The scheduler takes it back with the node. That it was selected may have been written for a moment only."""
    it = made()
    it.pod_changed(pod("q", app="app", **with_claims("c")))
    allocated(it, "n1")
    assert feasible(it, "q") == {"n1"}
    match how:
        case "released":
            of = si.AllocationRelease(allocationKey="uid-p", UUID="u-p", terminationType=si.STOPPED_BY_RM)
            it.allocation(si.AllocationResponse(released=[of]))
        case "ended":
            it.pod_gone(pod("p", app="app", **with_claims("c")))
        case _:
            it.report()
    assert feasible(it, "q") == {"n1", "n2"}
    it.volumes.claim_changed(claim(selected="n1"))
    assert feasible(it, "q") == {"n1"}


# Restarts


def restarted(of_claim: Any, *volumes: Volume) -> Shim:
    """A front end that finds an allocation on n1 whose pod is not bound."""
    it = Shim(shim().cache.policy)
    for name in ("n1", "n2"):
        it.node_changed(node(name))
    it.volumes.class_changed(storage_class())
    it.volumes.claim_changed(of_claim)
    for one in volumes:
        it.volumes.volume_changed(one)
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    allocation = AllocationRow("u-p", "default.app", "uid-p", "n1")
    nodes = [NodeRow("n1"), NodeRow("n2")]
    it.resume(KeptState(nodes, [ApplicationRow("default.app", "Running")], [], [allocation]))
    return it


def test_binding_of_claims_is_continued_after_a_restart() -> None:
    it = restarted(claim())
    (call,) = kept(it, Bind, BindVolumes, Release)
    assert isinstance(call, BindVolumes) and call.node == "n1" and len(call.selected) == 1
    it = restarted(claim(selected="n1"))
    assert not kept(it, Bind, BindVolumes, Release)
    it.volumes.volume_changed(volume("v1", **given_to("c", "uid-c"), phase="Bound"))
    it.volumes.claim_changed(claim("v1"))
    assert [one.node for one in kept(it, Bind)] == ["n1"]


def test_reservation_is_not_written_again_after_a_restart() -> None:
    by_user, by_us = volume("v1", **given_to("c")), volume("v1", **given_to("c", "uid-c"))
    (call,) = kept(restarted(claim(), by_user), Bind, BindVolumes, Release)
    assert [one.metadata.name for one, _ in call.reserved] == ["v1"]
    assert not kept(restarted(claim(), by_us), Bind, BindVolumes, Release)


def test_claim_is_bound_for_the_node_of_a_later_allocation() -> None:
    """The scheduler has lost its state, and decides anew."""
    it = local(volume("v1", **near("n1")), volume("v2", **near("n2")))
    allocated(it, "n1")
    it.report()
    it.take()
    it.volumes.volume_gone(volume("v1"))
    call = allocated(it, "n2")[-1]
    assert isinstance(call, BindVolumes)
    assert (call.node, [one.metadata.name for one, _ in call.reserved]) == ("n2", ["v2"])


# Ephemeral volumes


@pytest.mark.parametrize(
    ("owner", "refusal"),
    [
        ({"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}, ""),
        ({"kind": "Pod", "name": "p", "uid": "uid-p"}, "claim p-scratch was not created for the pod"),
        (
            {"kind": "Pod", "name": "p", "uid": "earlier", "controller": True},
            "claim p-scratch was not created for the pod",
        ),
    ],
    ids=["own", "no controller", "of an earlier pod"],
)
def test_claim_of_an_ephemeral_volume_is_the_pods_own(owner: dict[str, Any], refusal: str) -> None:
    it = shim("n1", "n2")
    it.volumes.class_changed(storage_class())
    it.pod_changed(pod("p", app="app", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert it.predicates.refusal("uid-p", "n1") == "claim p-scratch does not exist"
    it.volumes.claim_changed(claim(name="p-scratch", metadata={"ownerReferences": [owner]}))
    assert it.predicates.refusal("uid-p", "n1") == refusal
    assert len(kept(it, Ask)) == (0 if refusal else 1)
