"""Predicates against the real default scheduler: the same cluster, the same pod, the same nodes.

Each pod is tried on each node by itself, by a node selector. Where a pod is spread over domains that would change its
meaning: then the scheduler's one choice has to be among ours, and none where we have none.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import node, pod
from remuda_kubernetes.api.client import CLAIMS as CLAIMS_THERE
from remuda_kubernetes.api.client import CSI_NODES, MERGE_PATCH, NODES, PODS, STORAGE_CLASSES, Client, Resource
from remuda_kubernetes.api.client import VOLUMES as VOLUMES_THERE
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.shim import Shim

NAMES = ("n1", "n2", "n3")
IN_DEFAULT = "/api/v1/namespaces/default/pods"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EXAMPLES = int(os.environ.get("REMUDA_ORACLE_EXAMPLES", "60"))
rounds = itertools.count()
pytestmark = pytest.mark.timeout(60 + EXAMPLES)

ZONE = "topology.kubernetes.io/zone"
VALUES = st.sampled_from("ab")
LABELS = st.fixed_dictionaries(
    {}, optional={"zone": VALUES, "rack": VALUES, "size": st.sampled_from("123"), ZONE: VALUES}
)
APPS = st.sampled_from(["web", "db"])
TOPOLOGY = st.sampled_from(["kubernetes.io/hostname", "zone", "rack"])
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule"])
TAINTS = st.builds(lambda value, effect: [{"key": "keep", "value": value, "effect": effect}], VALUES, EFFECTS)
NODE = st.tuples(LABELS, st.one_of(st.just([]), TAINTS), st.booleans())


def requirement(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": values}


REQUIREMENTS = st.one_of(
    st.builds(
        requirement,
        st.sampled_from(["zone", "rack"]),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True),
    ),
    st.builds(requirement, st.just("size"), st.sampled_from(["Gt", "Lt"]), st.sampled_from([["1"], ["2"]])),
)
NODE_TERMS = st.lists(
    st.builds(lambda some: {"matchExpressions": some}, st.lists(REQUIREMENTS, min_size=1, max_size=2)),
    min_size=1,
    max_size=2,
)
POD_TERM = st.builds(
    lambda app, key: {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}, APPS, TOPOLOGY
)
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": NODE_TERMS.map(lambda terms: {REQUIRED: {"nodeSelectorTerms": terms}}),
        "podAffinity": st.lists(POD_TERM, min_size=1, max_size=2).map(lambda terms: {REQUIRED: terms}),
        "podAntiAffinity": st.lists(POD_TERM, min_size=1, max_size=2).map(lambda terms: {REQUIRED: terms}),
    },
)
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"key": "keep", "operator": "Exists"},
            {"key": "keep", "operator": "Equal", "value": "a"},
            {"key": "keep", "value": "b", "effect": "NoSchedule"},
            {"key": "keep", "value": "a", "effect": "NoExecute"},
            {"operator": "Exists"},
        ]
    ),
    max_size=2,
)
PORT = st.builds(
    lambda port, ip, protocol: {"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol},
    st.sampled_from([80, 81]),
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from(["TCP", "UDP"]),
)
SPREAD = st.builds(
    lambda app, key, skew: {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    },
    APPS,
    TOPOLOGY,
    st.integers(1, 2),
)
# Claims that are bound: to volumes of a driver with a limit, in a zone by affinity or by label. One that binds late has
# no node where its volume can be made.
DRIVER = "disk.example"
ATTACHED_AT_MOST = {"n1": 0, "n2": 1, "n3": 2}
CLAIMS = ("c1", "c2", "c3", "affinity", "label", "nowhere", "missing")
DISKS: tuple[dict[str, Any], ...] = (
    {"awsElasticBlockStore": {"volumeID": "v1"}},
    {"gcePersistentDisk": {"pdName": "d1"}},
    {"gcePersistentDisk": {"pdName": "d1", "readOnly": True}},
    {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.example:d", "lun": 0}},
    {"rbd": {"monitors": ["m1", "m2"], "image": "i"}},
    {"rbd": {"monitors": ["m2"], "image": "i"}},
)
VOLUME = st.one_of(
    st.sampled_from(CLAIMS).map(lambda name: {"persistentVolumeClaim": {"claimName": name}}), st.sampled_from(DISKS)
)
VOLUMES = st.lists(VOLUME, max_size=2).map(
    lambda some: [{"name": f"v{index}", **one} for index, one in enumerate(some)]
)

SPEC = st.fixed_dictionaries(
    {"app": APPS},
    optional={
        "affinity": AFFINITY,
        "tolerations": TOLERATIONS,
        "port": PORT,
        "nodeSelector": st.fixed_dictionaries({}, optional={"zone": VALUES}),
        "spread": SPREAD,
        "volumes": VOLUMES,
    },
)
PLACED = st.tuples(st.sampled_from(NAMES), SPEC)


def manifest(name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    fields = {
        key: value for key, value in spec.items() if key in ("affinity", "tolerations", "nodeSelector", "volumes")
    }
    ports = [spec["port"]] if "port" in spec else []
    container = {"name": "c", "image": "none", "ports": ports}
    if "spread" in spec:
        fields["topologySpreadConstraints"] = [spec["spread"]]
    labels = {"app": spec["app"]}
    return pod(name, labels=labels, scheduler="default-scheduler", containers=[container], **{**fields, **more})


@pytest.fixture(scope="module", autouse=True)
def _storage(plane: ControlPlane) -> None:
    asyncio.run(add_storage(plane))


async def add_storage(plane: ControlPlane) -> None:
    """Without the controller of volumes: claims are made as it leaves them."""
    zone_a = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    sources: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        **{name: ({}, {"csi": {"driver": DRIVER, "volumeHandle": name}}) for name in ("c1", "c2", "c3")},
        "affinity": ({}, {"csi": {"driver": "other", "volumeHandle": "x"}, "nodeAffinity": {"required": zone_a}}),
        "label": ({ZONE: "b"}, {"csi": {"driver": "other", "volumeHandle": "y"}}),
    }
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    nowhere = [{"matchLabelExpressions": [{"key": "zone", "values": ["nowhere"]}]}]
    async with Client(plane.credentials()) as client:
        await client.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "late"}, "provisioner": "other", "volumeBindingMode": "WaitForFirstConsumer",
             "allowedTopologies": nowhere},
        )  # fmt: skip
        for name, most in ATTACHED_AT_MOST.items():
            driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": most}}
            manifest = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
            await client.create("/apis/storage.k8s.io/v1/csinodes", manifest)
        for name, (labels, spec) in sources.items():
            reference = {"namespace": "default", "name": name}
            volume = {"capacity": {"storage": "1Gi"}, "claimRef": reference, **modes, **spec}
            metadata = {"name": f"pv-{name}", "labels": labels}
            await client.create("/api/v1/persistentvolumes", {"metadata": metadata, "spec": volume})
        for name in (*sources, "nowhere"):
            bound = {"volumeName": f"pv-{name}"} if name in sources else {}
            annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
            claim = {**modes, **bound, "resources": {"requests": {"storage": "1Gi"}}}
            await client.create(
                "/api/v1/namespaces/default/persistentvolumeclaims",
                {"metadata": {"name": name, "annotations": annotations}, "spec": claim},
            )


@given(st.tuples(NODE, NODE, NODE), st.lists(PLACED, max_size=4), SPEC)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_feasible_nodes_are_those_of_the_default_scheduler(
    plane: ControlPlane,
    nodes: tuple[tuple[dict[str, str], list[dict[str, str]], bool], ...],
    placed: list[tuple[str, dict[str, Any]]],
    spec: dict[str, Any],
) -> None:
    asyncio.run(compare(plane, nodes, placed, spec))


async def compare(plane: ControlPlane, nodes: Any, placed: Any, spec: dict[str, Any]) -> None:
    async with Client(plane.credentials()) as client:
        try:
            await arrange(client, nodes, placed)
            await client.create(IN_DEFAULT, manifest("asked", spec, schedulerName="nobody"))
            ours = await feasible(client)
            await delete(client, "asked")
            if "spread" in spec:
                choice = await tried(client, manifest("probe", spec))
                assert choice in ours if choice else not ours, f"{choice!r}: expected one of {ours}"
                return
            theirs = set()
            for name in NAMES:
                selector = {**spec.get("nodeSelector", {}), "kubernetes.io/hostname": name}
                if await tried(client, manifest("probe", spec, nodeSelector=selector)):
                    theirs.add(name)
            assert ours == theirs
        finally:
            for one in (await client.list(PODS))[0]:
                await client.delete_pod("default", one.metadata.name, one.uid, grace_s=0)


async def arrange(client: Client, nodes: Any, placed: Any) -> None:
    """The nodes as they should be, and known to the scheduler: a pod that only this version of them takes is bound."""
    number = str(next(rounds))
    known = {one.metadata.name for one in (await client.list(NODES))[0]}
    for name, (labels, taints, unschedulable) in zip(NAMES, nodes, strict=True):
        if name not in known:
            await client.create("/api/v1/nodes", node(name))
        every = {"zone": None, "rack": None, "size": None, ZONE: None, "round": number} | labels
        patch = {"metadata": {"labels": every}, "spec": {"taints": taints, "unschedulable": unschedulable or None}}
        await client.patch(f"/api/v1/nodes/{name}", patch, MERGE_PATCH)
    for name in NAMES:
        selector = {"kubernetes.io/hostname": name, "round": number}
        canary = manifest("canary", {"app": "none"}, nodeSelector=selector, tolerations=[{"operator": "Exists"}])
        assert await tried(client, canary, patient=True) == name
    for index, (name, spec) in enumerate(placed):
        await client.create(IN_DEFAULT, manifest(f"there-{index}", spec, nodeName=name))


async def feasible(client: Client) -> set[str]:
    shim = Shim(ShimPolicy(frozenset()))
    for one in (await client.list(NODES))[0]:
        shim.node_changed(one)
    storage = shim.volumes
    changed: list[tuple[Resource[Any], Callable[[Any], None]]] = [
        (STORAGE_CLASSES, storage.class_changed), (VOLUMES_THERE, storage.volume_changed),
        (CLAIMS_THERE, storage.claim_changed), (CSI_NODES, storage.csi_node_changed),
    ]  # fmt: skip
    for resource, take in changed:
        for one in (await client.list(resource))[0]:
            take(one)
    pods = {one.metadata.name: one for one in (await client.list(PODS))[0]}
    for found in pods.values():
        shim.pod_changed(found)
    return {name for name in NAMES if not shim.predicates.refusal(pods["asked"].uid, name)}


async def tried(client: Client, asked: dict[str, Any], *, patient: bool = False) -> str:
    """Where the scheduler puts the pod; empty: nowhere. `patient`: it may have to learn of a node first."""
    name = asked["metadata"]["name"]
    await client.create(IN_DEFAULT, asked)
    async with asyncio.timeout(90):
        while True:
            found = msgspec.json.decode(await client.call("GET", f"{IN_DEFAULT}/{name}"), type=Pod)
            refused = any(one.type == "PodScheduled" and one.status == "False" for one in found.status.conditions)
            if found.spec.node_name or (refused and not patient):
                await delete(client, name)
                return found.spec.node_name
            await asyncio.sleep(0.005)


async def delete(client: Client, name: str) -> None:
    found = msgspec.json.decode(await client.call("GET", f"{IN_DEFAULT}/{name}"), type=Pod)
    await client.delete_pod("default", name, found.uid, grace_s=0)
