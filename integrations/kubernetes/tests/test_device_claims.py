"""Claims of devices: what the shim, a core and an API server make of them together, and what others do meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests import manifests
from integrations.kubernetes.tests.plane import DRIVER, GPU, PARTITION, Plane
from remuda_kubernetes.api.client import ApiError, Away, Conflict
from remuda_kubernetes.api.objects import (
    CLAIM_FINALIZER,
    CelSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    Metadata,
    ResourceClaim,
    SliceDevice,
)
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.claims import ClaimRefused, give, give_back
from remuda_kubernetes.shim.devices import Selection, selection_of
from remuda_kubernetes.shim.effects import (
    Ask,
    Bind,
    GiveBack,
    PodName,
    RecordEvent,
    Release,
    ReportAllocation,
    ReportNode,
)
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, KeptState, NodeRow
from remuda_proto.si.v1 import si_pb2 as si
from tests.sim.kubernetes.api_server import Json

TAG = f"remuda/devices.{GPU}"


async def test_claim_is_written_before_the_binding_and_names_the_devices() -> None:
    it = Plane({"n1": 1, "n2": 4})
    paths: list[str] = []
    it.client.before = lambda path: paths.append(path.rpartition("/")[2])
    it.add_claim(count=2)
    uid = it.add_pod("p", "c")["metadata"]["uid"]
    await it.settle()
    assert it.node_of("p") == "n2" and it.devices_of() == [("n2", "gpu-0"), ("n2", "gpu-1")]
    assert paths == ["c", "status", "binding"]
    claim = it.claim()
    assert claim["metadata"]["finalizers"] == [CLAIM_FINALIZER]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    allocation = claim["status"]["allocation"]
    assert allocation["devices"]["config"] == [
        {"opaque": {"driver": DRIVER, "parameters": {"of": "class"}}, "source": "FromClass", "requests": ["gpu"]},
        {"opaque": {"driver": DRIVER, "parameters": {"of": "claim"}}, "source": "FromClaim"},
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    assert allocation["nodeSelector"] == {"nodeSelectorTerms": [term]}
    assert it.known("n2") == (4, 0, {"gpu-0": 0, "gpu-1": 0, "gpu-2": 1, "gpu-3": 1})


async def test_devices_are_occupied_from_the_end_of_the_pod_until_its_claim_is_free() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_claim("d")
    pod = it.add_pod("p", "c")
    await it.settle()
    it.add_pod("q", "d")
    await it.settle()
    assert it.node_of("q") == ""
    it.server.remove("pods", it.server.find("pods", "p") or pod)
    await it.settle()
    assert it.known("n1") == (1, 1, {"gpu-0": 0}) and it.node_of("q") == ""
    it.free_claims()
    await it.settle()
    assert it.node_of("q") == "n1" and it.devices_of("d") == [("n1", "gpu-0")] and it.devices_of("c") == []


async def test_devices_are_occupied_before_they_are_released() -> None:
    """Another pod would get them in between."""
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    it.server.remove("pods", it.server.find("pods", "p") or {})
    it.look()
    effects = [one for one in it.shim.take() if isinstance(one, ReportNode | Release)]
    assert [type(one) for one in effects] == [ReportNode, Release]
    (reported,) = [one.node for one in effects if isinstance(one, ReportNode)]
    assert reported.attributes[f"{TAG}.occupied"] == "gpu-0=1" and reported.occupiedResource.resources[GPU].value == 1


async def test_what_is_known_of_devices_is_cleared_after_a_restart() -> None:
    """While the process was away, the claim of another pod has been freed."""
    it = Plane({"n1": 1})
    it.restart()
    known = {TAG: "gpu-0,gpu-1", f"{TAG}.occupied": "gpu-0=1"}
    row = NodeRow("n1", known, {"vcore": 4_000, GPU: 2}, {GPU: 1}, "Schedulable")
    it.shim.resume(KeptState([row], [], [], []))
    (reported,) = [one.node for one in it.shim.take() if isinstance(one, ReportNode)]
    attributes = dict(reported.attributes)
    assert attributes[TAG] == "gpu-0" and attributes[f"{TAG}.occupied"] == ""
    assert (
        reported.schedulableResource.resources[GPU].value == 1 and reported.occupiedResource.resources[GPU].value == 0
    )


async def test_claims_of_others_occupy_their_devices() -> None:
    it = Plane({"n1": 2})
    other = it.add_claim("other")
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
    consumer = {"resource": "pods", "name": "x", "uid": "uid-of-x"}
    it.server.put(
        "resourceclaims", other, status={"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
    )
    it.add_claim("c", 2)
    it.add_pod("p", "c")
    await it.settle()
    assert it.known("n1") == (2, 1, {"gpu-0": 0, "gpu-1": 1}) and it.node_of("p") == ""
    it.server.remove("resourceclaims", it.claim("other"))
    await it.settle()
    assert it.node_of("p") == "n1"


async def test_pods_that_share_a_claim_use_its_devices_and_are_where_they_are() -> None:
    it = Plane({"n1": 1, "n2": 1, "n3": 0})
    it.add_claim("c")
    uids = [it.add_pod(name, "c")["metadata"]["uid"] for name in ("p", "q")]
    await it.settle()
    assert it.node_of("p") == it.node_of("q") == it.devices_of()[0][0]
    assert [one["uid"] for one in it.claim()["status"]["reservedFor"]] == uids
    node = it.node_of("p")
    it.server.remove("pods", it.server.find("pods", "p") or {})
    it.free_claims()
    await it.settle()
    assert it.known(node) == (1, 1, {"gpu-0": 0})  # the other pod uses it
    it.add_pod("r", "c")
    await it.settle()
    assert it.node_of("r") == node


async def test_pod_that_waits_for_a_volume_keeps_no_claim_from_others() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    wants = [{"name": "gpu", "resourceClaimName": "c"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    it.server.add("pods", manifests.pod("p", app="app", resourceClaims=wants, volumes=volumes), "default")
    it.add_pod("q", "c")
    await it.settle()
    assert (it.node_of("p"), it.node_of("q")) == ("", "n1") and it.conditions["p"] == "claim missing does not exist"


async def test_second_pod_of_a_claim_says_for_whom_it_waits() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c", 2)
    it.add_pod("p", "c")
    it.add_pod("q", "c")
    await it.settle()
    assert it.conditions["q"] == "ResourceClaim c is allocated for default/p first"
    it.server.remove("pods", it.server.find("pods", "p") or {})
    await it.settle()
    applications = it.core.state.partitions[PARTITION].applications.values()
    asked = [one.ask.allocation_key for application in applications for one in application.asks.values()]
    assert asked == [(it.server.find("pods", "q") or {})["metadata"]["uid"]]


@pytest.mark.parametrize("part", ["c", "status", "binding"])
async def test_what_was_written_is_taken_back_if_the_pod_is_not_bound(part: str) -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    refusals: list[str] = []

    def refuse(path: str) -> None:
        if path.endswith(f"/{part}") and not refusals:
            refusals.append(path)
            raise Conflict("a policy says no", 403)

    it.client.before = refuse
    await it.settle()
    assert refusals and it.node_of("p") == "n1" and it.devices_of() == [("n1", "gpu-0")]
    if part == "binding":
        assert any("PodBindFailure" in one for one in it.events)
    assert it.known("n1") == (1, 0, {"gpu-0": 0})


async def test_claim_that_another_scheduler_allocates_meanwhile_wins() -> None:
    it = Plane({"n1": 1, "n2": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n2", "device": "gpu-0"}]

    def allocate(path: str) -> None:
        if path.endswith("/c") and "allocation" not in it.claim()["status"]:
            where = {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
            }
            status = {"allocation": {"devices": {"results": results}, "nodeSelector": where}}
            it.server.put("resourceclaims", it.claim(), status=status)

    it.client.before = allocate
    await it.settle()
    assert it.node_of("p") == "n2" and it.devices_of() == [("n2", "gpu-0")]
    assert it.known("n1")[2] == {"gpu-0": 1}


async def test_lost_answer_of_a_write_is_no_conflict() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    it.is_carried_out = False
    await it.settle()
    it.look()
    entry = next(one for one in it.shim.cache.pods.values() if one.pod.metadata.name == "p")
    writes = it.shim.cache.devices.writes(entry.pod, "n1", entry.devices)
    for _ in range(2):
        await give(it.client, writes[0], entry.name)  # type: ignore[arg-type]
    assert len(it.claim()["status"]["reservedFor"]) == 1
    elsewhere = writes[0]._replace(
        allocation={"devices": {"results": [{"driver": DRIVER, "pool": "x", "device": "y"}]}}
    )
    with pytest.raises(ClaimRefused, match="allocated otherwise"):
        await give(it.client, elsewhere, entry.name)  # type: ignore[arg-type]


async def test_claim_that_was_made_anew_is_not_written() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    it.is_carried_out = False
    await it.settle()
    entry = next(iter(it.shim.cache.pods.values()))
    (write,) = it.shim.cache.devices.writes(entry.pod, "n1", entry.devices)
    it.server.remove("resourceclaims", it.claim())
    it.add_claim("c")
    with pytest.raises(ClaimRefused, match="made anew"):
        await give(it.client, write, entry.name)  # type: ignore[arg-type]
    it.server.put("resourceclaims", it.claim(), metadata={"finalizers": []})


async def test_nothing_is_taken_back_from_a_pod_that_is_bound() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    entry = next(iter(it.shim.cache.pods.values()))
    await give_back(it.client, GiveBack(entry.name, (it.shim.cache.devices.claims["default", "c"],)))  # type: ignore[arg-type]
    assert it.devices_of() == [("n1", "gpu-0")]


async def test_claim_that_changes_while_it_is_taken_back_is_read_again() -> None:
    it = Plane({"n1": 1})
    claim = it.add_claim("c")
    uid = it.add_pod("p", "c")["metadata"]["uid"]
    results: Json = {"devices": {"results": []}}
    it.server.put(
        "resourceclaims",
        claim,
        status={"allocation": results, "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}]},
    )

    def change(path: str) -> None:
        it.client.before = lambda path: None
        it.server.put("resourceclaims", it.claim(), metadata={"labels": {"changed": "yes"}})

    it.client.before = change
    of = GiveBack(
        PodName("default", "p", uid),
        (msgspec.convert(it.claim(), ResourceClaim),),
    )
    with pytest.raises(Away):
        await give_back(it.client, of)  # type: ignore[arg-type]
    await give_back(it.client, of)  # type: ignore[arg-type]
    assert "allocation" not in it.claim()["status"] and "reservedFor" not in it.claim()["status"]


async def test_restart_between_the_claim_and_the_binding_goes_on() -> None:
    it = Plane({"n1": 2})
    it.add_claim("c")
    it.add_pod("p", "c")

    def crash(path: str) -> None:
        if path.endswith("/binding"):
            raise ApiError("the process is gone", 0)

    it.client.before = crash
    it.is_carried_out = False
    await it.settle()
    (allocation,) = it.core.state.partitions[PARTITION].allocations.values()
    entry = next(iter(it.shim.cache.pods.values()))
    (write,) = it.shim.cache.devices.writes(entry.pod, "n1", entry.devices)
    await give(it.client, write, entry.name)  # type: ignore[arg-type]
    fact = allocation.fact
    row = AllocationRow(
        fact.uuid,
        fact.application_id,
        fact.allocation_key,
        "n1",
        resource=dict(fact.resource),
        devices=dict(fact.devices),
    )
    it.client.before = lambda path: None
    it.is_carried_out = True
    it.restart()
    it.shim.resume(KeptState([], [ApplicationRow("default.app", "Running")], [], [row]))
    await it.settle()
    assert it.node_of("p") == "n1" and it.devices_of() == [("n1", "gpu-0")]
    assert it.known("n1") == (2, 0, {"gpu-0": 0, "gpu-1": 1})


async def test_claim_of_a_placement_that_is_over_is_given_back_at_the_start() -> None:
    """An earlier process has written it, and the scheduler knows nothing of it."""
    it = Plane({"n1": 1, "n2": 2})
    claim = it.add_claim("c", 2)
    uid = it.add_pod("p", "c")["metadata"]["uid"]
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n9", "device": f"gpu-{number}"} for number in range(2)]
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]}
    consumer = {"resource": "pods", "name": "p", "uid": uid}
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": where}, "reservedFor": [consumer]}
    it.server.put("resourceclaims", claim, status=status)
    await it.settle()
    assert it.node_of("p") == "n2" and it.devices_of() == [("n2", "gpu-0"), ("n2", "gpu-1")]


async def test_pods_that_run_are_reported_with_their_devices() -> None:
    it = Plane({"n1": 3})
    it.add_claim("c", 2)
    it.add_pod("p", "c")
    it.add_pod("q", "c")
    await it.settle()
    it.restart()
    it.shim.report()
    (reported,) = [one.node for one in it.shim.take() if isinstance(one, ReportNode)]
    tags = {one.allocationKey: dict(one.allocationTags).get(TAG, "") for one in reported.existingAllocations}
    assert sorted(tags.values()) == ["", "gpu-0,gpu-1"]
    amounts = {one.resourcePerAlloc.resources[GPU].value for one in reported.existingAllocations}
    assert amounts == {0, 2} and reported.occupiedResource.resources[GPU].value == 0
    assert reported.attributes[TAG] == "gpu-0,gpu-1,gpu-2" and reported.schedulableResource.resources[GPU].value == 3


async def test_slices_change_the_devices_of_a_node() -> None:
    it = Plane({"n1": 2})
    slice_ = it.server.find("resourceslices", "n1-slice", "") or {}
    sick = [{"name": "gpu-0", "taints": [{"key": "sick", "effect": "NoSchedule"}]}, {"name": "gpu-1"}]
    it.server.put("resourceslices", slice_, spec={"devices": sick})
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    assert it.devices_of() == [("n1", "gpu-1")]
    newer = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    it.server.put(
        "resourceslices",
        it.server.find("resourceslices", "n1-slice", "") or {},
        spec={"pool": newer, "devices": [{"name": "gpu-1"}]},
    )
    await it.settle()
    assert it.known("n1")[0] == 2  # half of the pool is not there yet
    it.add_slice("n1", [{"name": "gpu-5"}, {"name": "gpu-6"}], 2, 2, "n1-more")
    await it.settle()
    assert it.known("n1") == (3, 0, {"gpu-1": 0, "gpu-5": 1, "gpu-6": 1})
    for one in it.server.all("resourceslices"):
        it.server.remove("resourceslices", one)
    await it.settle()
    assert it.capacity("n1") == 0


async def test_devices_that_others_have_to_give_are_left_out() -> None:
    of: list[Json] = [
        {"name": "a", "consumesCounters": [{"counterSet": "x"}]},
        {"name": "b", "allowMultipleAllocations": True},
        {"name": "c", "bindingConditions": ["ready"]},
        {"name": "d"},
    ]
    it = Plane({})
    it.server.add("nodes", manifests.node("n1"))
    it.add_slice("n1", of)
    it.add_slice("elsewhere", [{"name": "d"}])
    it.server.put(
        "resourceslices", it.server.find("resourceslices", "elsewhere-slice", "") or {}, spec={"nodeName": "n1"}
    )
    await it.settle()
    assert list(it.known("n1")[2]) == ["d", "elsewhere/d"]


def elsewhere(node: str) -> Json:
    """The node selector of an allocation."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def request(**exactly: Any) -> Json:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]}}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (request(allocationMode="All"), "allocationMode All in the request gpu"),
        (request(selectors=[{"cel": {"expression": "true"}}]), "selectors in the request gpu"),
        (request(adminAccess=True), "adminAccess in the request gpu"),
        (request(tolerations=[{"key": "x"}]), "tolerations in the request gpu"),
        (request(capacity={"requests": {"memory": "1Gi"}}), "capacity in the request gpu"),
        (request(deviceClassName="other"), "DeviceClass other, which kubernetes.device_classes does not name"),
        (
            {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "a"}]}]}},
            "request gpu without exactly",
        ),
        (request() | {"devices": {**request()["devices"], "constraints": [{"matchAttribute": "x"}]}}, "constraints"),
    ],
)
async def test_pod_says_why_a_claim_is_not_allocated_here(spec: Json, reason: str) -> None:
    it = Plane({"n1": 2})
    it.server.put("resourceclaims", it.add_claim("c"), spec=spec)
    it.add_pod("p", "c")
    await it.settle()
    assert it.node_of("p") == "" and reason in it.conditions["p"]


async def test_pod_waits_for_its_claim_and_says_so() -> None:
    it = Plane({"n1": 1})
    wants = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod = it.server.add("pods", manifests.pod("p", app="app", resourceClaims=wants), "default")
    await it.settle()
    assert it.conditions["p"] == "its claim gpu is not made yet from ResourceClaimTemplate one-gpu"
    pod = it.server.put(
        "pods",
        it.server.find("pods", "p") or pod,
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-1"}]},
    )
    await it.settle()
    assert it.conditions["p"] == "ResourceClaim p-1 does not exist"
    it.add_claim("p-1", owner="uid-of-an-earlier-pod")
    await it.settle()
    assert it.conditions["p"] == "ResourceClaim p-1 was not made for the pod"
    it.server.remove("resourceclaims", it.claim("p-1"))
    it.add_claim("p-1", owner=pod["metadata"]["uid"])
    await it.settle()
    assert it.node_of("p") == "n1" and it.devices_of("p-1") == [("n1", "gpu-0")]


async def test_pod_that_was_asked_for_is_withdrawn_with_its_claim() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c", 2)
    it.add_pod("p", "c")
    await it.settle()
    assert [one.pending for one in it.core.state.partitions[PARTITION].applications["default.app"].asks.values()] == [1]
    it.server.remove("resourceclaims", it.claim())
    await it.settle()
    assert not it.core.state.partitions[PARTITION].applications["default.app"].asks
    assert it.conditions["p"] == "ResourceClaim c does not exist"


async def test_pod_with_a_class_that_is_not_there_waits_for_it() -> None:
    it = Plane({"n1": 1})
    it.server.remove("deviceclasses", it.server.find("deviceclasses", "gpu", "") or {})
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    assert "DeviceClass gpu does not exist" in it.conditions["p"] and it.capacity("n1") == 0
    it.add_class()
    await it.settle()
    assert it.node_of("p") == "n1"


async def test_pod_waits_where_the_api_server_has_no_claims() -> None:
    it = Plane({"n1": 1})
    it.shim.device_claims.served(are_served=False)
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    assert "resource.k8s.io/v1 (from 1.34)" in it.conditions["p"]
    it.shim.device_claims.served(are_served=True)
    await it.settle()
    assert it.node_of("p") == "n1"


async def test_containers_do_not_request_devices_of_claims() -> None:
    it = Plane({"n1": 1})
    container = {"name": "main", "image": "none", "resources": {"requests": {GPU: "1"}}}
    it.server.add("pods", manifests.pod("p", app="app", containers=[container]), "default")
    await it.settle()
    assert it.conditions["p"] == f"its containers request {GPU}, which is allocated by resourceClaims only"


async def test_partition_without_the_devices_is_told() -> None:
    it = Plane({"n1": 1})
    it.add_claim("c")
    it.add_pod("p", "c")
    it.look()
    asks = [one.ask for one in it.shim.take() if isinstance(one, Ask)]
    if not asks:
        it.shim.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")]))
        asks = [one.ask for one in it.shim.take() if isinstance(one, Ask)]
    (ask,) = asks
    new = si.Allocation(allocationKey=ask.allocationKey, UUID="u", nodeID="n1", applicationID="default.app")
    it.shim.allocation(si.AllocationResponse(new=[new]))
    effects = it.shim.take()
    assert [one for one in effects if isinstance(one, Release)] and not [
        one for one in effects if isinstance(one, Bind)
    ]
    (event,) = [one.note for one in effects if isinstance(one, RecordEvent) and one.reason == "PodClaimsFailure"]
    assert event == f"1 {GPU} were placed without devices: name {GPU}: 1 in devices of the partition"


def of_class(*expressions: str) -> DeviceClass:
    selectors = [DeviceSelector(cel=CelSelector(expression=one)) for one in expressions]
    return DeviceClass(metadata=Metadata(name="gpu"), spec=DeviceClassSpec(selectors=selectors))


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (['device.driver == "gpu.nvidia.com"'], Selection("gpu.nvidia.com")),
        (["device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"],
         Selection("gpu.nvidia.com", (("gpu.nvidia.com", "type", "gpu"),))),
        (['device.driver == "d"', 'device.attributes["d"].index == 3&&device.attributes["x.y"].ready==true'],
         Selection("d", (("d", "index", 3), ("x.y", "ready", True)))),
    ],
)  # fmt: skip
def test_selectors_that_are_understood(expressions: list[str], expected: Selection) -> None:
    assert selection_of(of_class(*expressions)) == expected


@pytest.mark.parametrize(
    "expression",
    ["", "true", 'device.driver == "a" || device.driver == "b"', 'device.attributes["d"].type == "gpu"',
     'device.driver.startsWith("gpu")', 'device.capacity["d"].memory == quantity("1Gi")'],
)  # fmt: skip
def test_selectors_that_are_not_understood(expression: str) -> None:
    with pytest.raises(ValueError, match=r"DeviceClass gpu (selects by|names no driver)"):
        selection_of(of_class(expression))


def test_attributes_select_devices() -> None:
    def device(**attributes: Any) -> Any:
        return msgspec.convert({"name": "d", "attributes": attributes}, SliceDevice)

    of = Selection("d", (("d", "type", "gpu"), ("x", "big", True)))
    assert of.selects("d", device(type={"string": "gpu"}, **{"x/big": {"bool": True}}))
    assert of.selects("d", device(**{"d/type": {"string": "gpu"}, "x/big": {"bool": True}}))
    assert not of.selects("e", device(type={"string": "gpu"}, **{"x/big": {"bool": True}}))
    assert not of.selects("d", device(type={"string": "mig"}, **{"x/big": {"bool": True}}))
    assert not of.selects("d", device(type={"string": "gpu"}, big={"bool": True}))


@pytest.mark.parametrize("wrong", [("gpu",), ("gpu=",), ("a=x", "a=y"), ("a=x", "b=x")])
def test_settings_name_a_resource_for_each_class(wrong: tuple[str, ...]) -> None:
    assert KubernetesSettings(device_classes=("a=x", "b=y")).policy.device_classes == (("a", "x"), ("b", "y"))
    with pytest.raises(ValueError, match="expected CLASS=RESOURCE|expected a resource of its own"):
        KubernetesSettings(device_classes=wrong)


async def test_running_pod_that_is_reported_after_a_restart_has_its_devices_once() -> None:
    it = Plane({"n1": 2})
    it.add_claim("c")
    it.add_pod("p", "c")
    await it.settle()
    it.restart()
    row = NodeRow("n1", {TAG: "gpu-0,gpu-1"}, {"vcore": 4_000, GPU: 2}, {}, "Schedulable")
    it.shim.resume(KeptState([row], [], [], []))
    effects = it.shim.take()
    (allocation,) = [one.allocation for one in effects if isinstance(one, ReportAllocation)]
    assert allocation.allocationTags[TAG] == "gpu-0"
    *_, last = [one.node for one in effects if isinstance(one, ReportNode)]
    assert dict(last.attributes)[f"{TAG}.occupied"] == "" and last.occupiedResource.resources[GPU].value == 0


async def test_devices_of_a_node_are_reported_although_its_amounts_cannot_be_read() -> None:
    it = Plane({"n1": 1})
    node = it.server.find("nodes", "n1", "")
    assert node is not None
    it.server.put("nodes", node, status={"allocatable": {"cpu": "much"}})
    await it.settle()
    one = it.server.find("resourceslices", "n1-slice", "") or {}
    it.server.put("resourceslices", one, spec={"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]})
    await it.settle()
    assert it.capacity("n1") == 2
    it.server.remove("resourceslices", it.server.find("resourceslices", "n1-slice", "") or {})
    await it.settle()
    assert it.capacity("n1") == 0


@pytest.mark.parametrize("is_allocated_first", [True, False])
async def test_pod_that_another_process_binds_has_the_devices_of_its_claim(is_allocated_first: bool) -> None:
    it = Plane({"n1": 2})
    it.add_claim("c")
    pod = it.add_pod("p", "c")
    it.look()
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}]
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
    writes = [
        lambda: it.server.put("resourceclaims", it.claim(), status=status),
        lambda: it.server.put("pods", pod, spec={"nodeName": "n1"}),
    ]
    for write in writes if is_allocated_first else reversed(writes):
        write()
        it.look()
    await it.settle()
    booked = it.core.state.partitions[PARTITION].nodes["n1"].allocated.get(GPU, 0)
    assert it.known("n1") == (2, 1 - booked, {"gpu-0": 1, "gpu-1": 0}) and booked == is_allocated_first
