"""Volumes of pods: predicates, waiting for claims, and claims that bind late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from integrations.kubernetes.tests.late_claims import (
    LATE,
    NO_PROVISIONER,
    allocated,
    claim,
    feasible,
    kept,
    near,
    storage_class,
    volume,
    with_claims,
)
from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import StorageClass, Volume
from remuda_kubernetes.shim.effects import Ask, Bind, BindVolumes, RecordEvent, Release
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

WITH_CLAIM = with_claims("c")
ZONE = "topology.kubernetes.io/zone"


def in_zone(zone: str) -> dict[str, Any]:
    return {ZONE: zone}


def with_pod() -> Shim:
    it = shim()
    it.node_changed(node("n1", **in_zone("a")))
    it.node_changed(node("n2", **in_zone("b")))
    it.pod_changed(pod("p", app="app", **WITH_CLAIM))
    return it


def test_pod_waits_for_its_claim() -> None:
    it = with_pod()
    (event,) = [one for one in kept(it, RecordEvent) if one.reason == "FailedScheduling"]
    assert event.note == "claim c does not exist"
    it.volumes.claim_changed(claim())
    assert not kept(it, Ask)
    it.volumes.volume_changed(volume("v1"))
    it.volumes.claim_changed(claim("v1"))
    assert len(kept(it, Ask)) == 1


def test_pod_that_is_gone_waits_for_no_claim() -> None:
    """Else pods with claims that never come would fill the memory."""
    it = with_pod()
    it.pod_changed(pod("q", app="app", **WITH_CLAIM))
    it.pod_gone(pod("p", app="app", **WITH_CLAIM))
    assert list(it.volumes._awaited.values()) == [{"uid-q": None}]
    it.pod_gone(pod("q", app="app", **WITH_CLAIM))
    assert not it.volumes._awaited


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (volume("v1"), {"n1", "n2"}),
        (volume("v1", **near("n2")), {"n2"}),
        (volume("v1", labels={ZONE: "a"}), {"n1"}),
        (volume("v1", labels={ZONE: "a__b"}), {"n1", "n2"}),
        (volume("v1", labels={ZONE: "c"}), set()),
        (volume("another"), set()),
    ],
    ids=["anywhere", "affinity", "zone", "zones", "other zone", "no volume"],
)
def test_bound_claim_keeps_the_pod_where_its_volume_is(bound: Volume, expected: set[str]) -> None:
    it = with_pod()
    it.volumes.volume_changed(bound)
    it.volumes.claim_changed(claim("v1"))
    assert feasible(it) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (storage_class(), {"n1", "n2"}),
        (storage_class(LATE, allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]), {"n2"}),
        (storage_class(LATE, NO_PROVISIONER), set()),
        (storage_class("Immediate"), set()),
    ],
    ids=["made anywhere", "made in a zone", "none is made", "immediate"],
)  # fmt: skip
def test_late_claim_needs_a_volume_that_can_be_made(of: StorageClass, expected: set[str]) -> None:
    it = with_pod()
    it.volumes.class_changed(of)
    it.volumes.claim_changed(claim())
    assert feasible(it) == expected


def test_late_claim_takes_the_smallest_free_volume_of_the_node() -> None:
    it = with_pod()
    it.volumes.class_changed(storage_class(LATE, NO_PROVISIONER))
    it.volumes.claim_changed(claim())
    for one in (
        volume("small", "1Mi", **near("n2")),
        volume("large", "9Gi", **near("n2")),
        volume("right", "2Gi", **near("n2")),
        volume("taken", claimRef={"namespace": "default", "name": "another"}),
    ):
        it.volumes.volume_changed(one)
    assert feasible(it) == {"n2"}
    (call,) = allocated(it, "n2")
    assert isinstance(call, BindVolumes)
    assert [one.metadata.name for one, _ in call.reserved] == ["right"]


def late() -> Shim:
    it = with_pod()
    it.volumes.class_changed(storage_class())
    it.volumes.claim_changed(claim())
    it.take()
    return it


def test_pod_is_bound_when_its_late_claim_is() -> None:
    it = late()
    (call,) = allocated(it, "n1")
    assert isinstance(call, BindVolumes)
    assert (call.node, [one.metadata.name for one in call.selected]) == ("n1", ["c"])
    it.volumes.claim_changed(claim())
    assert not kept(it, Bind, BindVolumes)
    it.volumes.volume_changed(volume("v1"))
    it.volumes.claim_changed(claim("v1"))
    assert [effect.node for effect in kept(it, Bind)] == ["n1"]


@pytest.mark.parametrize(("given_s", "within_s"), [(None, limits.VOLUME_BIND_TIMEOUT_S), (30.0, 30.0)])
def test_late_claim_that_is_not_bound_in_time_is_given_up(given_s: float | None, within_s: float) -> None:
    it = late()
    it.cache.policy = replace(it.cache.policy, volume_bind_timeout_s=given_s)
    allocated(it, "n1")
    for _ in range(int(within_s / limits.SWEEP_EVERY_S)):
        it.sweep()
    assert not kept(it, Release, Ask)
    it.sweep()
    assert [type(effect) for effect in kept(it, Release, Ask)] == [Release, Ask]
    withdrawn, call = allocated(it, "n2")  # either ask may be the one that was allocated
    assert isinstance(withdrawn, Release) and isinstance(call, BindVolumes)
    it.volumes_failed(call, "the volume has changed")
    assert [type(effect) for effect in kept(it, Release, Ask)] == [Release]
    it.sweep()
    assert [type(effect) for effect in kept(it, Release, Ask)] == [Ask]


def test_late_claim_is_given_up_in_time_although_its_pod_is_being_released() -> None:
    it = late()
    allocated(it, "n1")
    release = si.AllocationRelease(allocationKey="uid-p", UUID="u-p", terminationType=si.PREEMPTED_BY_SCHEDULER)
    it.allocation(si.AllocationResponse(released=[release]))
    assert feasible(it) == {"n1"}
    for _ in range(int(limits.VOLUME_BIND_TIMEOUT_S / limits.SWEEP_EVERY_S) + 1):
        it.sweep()
    assert feasible(it) == {"n1", "n2"}


def test_pod_whose_claims_are_refused_again_and_again_is_asked_for_later_each_time() -> None:
    """The API server may refuse the change of a claim that has not been reported as changed yet."""
    it, asked_after = late(), []
    for _ in range(7):
        call = allocated(it, "n1")[-1]
        assert isinstance(call, BindVolumes)
        it.volumes_failed(call, "the claim has changed")
        sweeps = 0
        while not kept(it, Ask):
            it.sweep()
            sweeps += 1
        asked_after.append(sweeps)
    assert asked_after == [0, 1, 2, 4, 8, 10, 10]
    it.volumes_failed(allocated(it, "n1")[-1], "the claim has changed")  # type: ignore[arg-type]
    assert not kept(it, Ask)
    it.volumes.claim_changed(claim(size="2Gi"))
    assert kept(it, Ask), "this may be what kept it off"


def test_pods_with_claims_are_classes_of_their_own() -> None:
    it = shim("n1")
    it.volumes.volume_changed(volume("v1"))
    it.volumes.claim_changed(claim("v1"))
    for name in "pq":
        it.pod_changed(pod(name, app="app", **WITH_CLAIM))
    assert len({effect.ask.tags["remuda/predicateClass"] for effect in kept(it, Ask)}) == 2
