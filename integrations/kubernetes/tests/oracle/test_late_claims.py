"""Claims that bind late, against the real default scheduler: the same volumes, the same pod, the same choice.

The default scheduler writes its choice into volumes and claims, and then waits for a controller that does not run. So
its choice can be read before anything is bound: a node that is among ours, and for that node the volumes that are ours.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import pod
from integrations.kubernetes.tests.oracle.test_default_scheduler import (
    EXAMPLES,
    IN_DEFAULT,
    NAMES,
    arrange,
    delete,
    rounds,
)
from integrations.kubernetes.tests.storage import NO_PROVISIONER, with_claims
from remuda_kubernetes.api.client import MERGE_PATCH, NODES, Client
from remuda_kubernetes.api.objects import SELECTED_NODE, Claim, Object, Pod, StorageClass, Volume
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.shim import Shim

T = TypeVar("T", bound=Object)

pytestmark = pytest.mark.timeout(60 + EXAMPLES)

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
LABELS_OF_NODES = ({"zone": "a"}, {"zone": "b"}, {"zone": "b", "rack": "a"})
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

# What is the same for volumes and claims is nearly always so: else nothing would suit.
ACCESS = st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadOnlyMany"]])
VOLUME_MODE = st.sampled_from([None, None, None, "Filesystem", "Block"])
KIND = st.sampled_from(["ssd", "ssd", "disk"])
OF_CLASS = st.sampled_from(["local", "local", "made"])
HOST = "kubernetes.io/hostname"
NEAR = st.sampled_from([(HOST, ["n1"]), (HOST, ["n2", "n3"]), ("zone", ["b"]), ("rack", ["a"]), None])
OF_VOLUME = st.fixed_dictionaries(
    {
        "class": OF_CLASS,
        "modes": ACCESS,
        "kind": KIND,
        "near": NEAR,
        "volumeMode": VOLUME_MODE,
        "phase": st.sampled_from(["Available"] * 5 + ["Pending", "Released"]),
        "zone": st.sampled_from([None, None, "a", "b"]),
        "annotated": st.booleans(),
    }
)
# For the first volume: whose it is. So no two are reserved for one claim; which one counts then is not said anywhere.
RESERVED = st.sampled_from([None, None, "first", "second", "other"])
OF_CLAIM = st.fixed_dictionaries(
    {
        "class": OF_CLASS,
        "modes": ACCESS,
        "volumeMode": VOLUME_MODE,
        "selector": st.sampled_from([None, None, {"kind": "ssd"}, {"kind": "disk"}]),
        "selected": st.sampled_from([None] * 8 + ["n1"]),
        "annotated": st.booleans(),
    }
)
# The sizes are different, so that the smallest one is one, and the smallest claim.
SIZES = st.permutations([1, 2, 3, 4])
TOPOLOGY = st.sampled_from([None, ("zone", ["a"]), ("zone", ["b"])])


@pytest.fixture(scope="module", autouse=True)
def _nodes(plane: ControlPlane) -> None:
    async def run() -> None:
        async with Client(plane.credentials()) as client:
            await arrange(client, [(labels, [], False) for labels in LABELS_OF_NODES], [])

    asyncio.run(run())


@given(
    st.lists(OF_VOLUME, max_size=4), SIZES, RESERVED, st.tuples(OF_CLAIM, OF_CLAIM), SIZES, st.integers(1, 2), TOPOLOGY,
    st.sampled_from([None, *NAMES]),
)  # fmt: skip
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_late_claims_get_the_volumes_that_the_default_scheduler_gives_them(
    plane: ControlPlane,
    volumes: list[dict[str, Any]],
    sizes: list[int],
    reserved: str | None,
    claims: tuple[dict[str, Any], dict[str, Any]],
    requests: list[int],
    count: int,
    topology: tuple[str, list[str]] | None,
    node: str | None,
) -> None:
    """`count`: of claims that the pod has. `topology`: where volumes can be made. `node`: the only one of the pod."""

    async def run() -> None:
        async with Client(plane.credentials()) as client:
            it = Case(client)
            await it.add_classes(topology)
            for number, (of, size) in enumerate(zip(volumes, sizes, strict=False)):
                await it.add_volume(number, of, size, reserved if number == 0 else None)
            names = ("first", "second")[:count]
            for name, of, size in zip(names, claims, requests, strict=False):
                await it.add_claim(name, of, size)
            await it.compare(names, node)

    asyncio.run(run())


@pytest.mark.parametrize(
    "owner",
    [
        {"controller": True},
        {"controller": False},
        {"controller": True, "uid": "of-an-earlier-pod"},
        {"controller": True, "name": "another", "uid": "of-another-pod"},
        None,
    ],
    ids=["the pod", "the pod, not as controller", "an earlier pod", "another pod", "nobody"],
)
def test_ephemeral_volume_is_the_claim_that_was_made_for_the_pod(
    plane: ControlPlane, owner: dict[str, Any] | None
) -> None:
    """`owner`: of the claim that has the names of pod and volume, where it is not the pod."""

    async def run() -> None:
        async with Client(plane.credentials()) as client:
            await Case(client).compare_ephemeral(owner)

    asyncio.run(run())


class OneByOne(ShimPolicy):
    """As for pods of the default scheduler, which looks at one claim after the other."""

    def leaves_volumes(self, pod: Pod) -> bool:
        return True


class Case:
    """Objects with names of their own, and classes: other cases have left theirs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._number = next(rounds)
        self._shim = Shim(OneByOne(frozenset()))

    def _name(self, name: str) -> str:
        return f"{name}-{self._number}"

    async def _create(self, path: str, manifest: dict[str, Any], kind: type[T]) -> T:
        return msgspec.json.decode(await self._client.create(path, manifest), type=kind)

    async def add_classes(self, topology: tuple[str, list[str]] | None) -> None:
        for name, provisioner in (("local", NO_PROVISIONER), ("made", "other")):
            made: dict[str, Any] = _class(self._name(name), provisioner)
            if topology is not None:
                key, values = topology
                made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": key, "values": values}]}]
            self._shim.volumes.class_changed(await self._create(CLASSES, made, StorageClass))

    def _of_class(self, of: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Annotations and fields."""
        name = self._name(of["class"])
        return ({BETA_CLASS: name}, {}) if of["annotated"] else ({}, {"storageClassName": name})

    async def add_volume(self, number: int, of: dict[str, Any], size: int, reserved: str | None) -> None:
        annotations, spec = self._of_class(of)
        labels = {"kind": of["kind"]} | ({"topology.kubernetes.io/zone": of["zone"]} if of["zone"] else {})
        made: dict[str, Any] = {
            **spec, "capacity": {"storage": f"{size}Gi"}, "accessModes": of["modes"], "volumeMode": of["volumeMode"],
            "csi": {"driver": "other", "volumeHandle": self._name(f"v{number}")},
        }  # fmt: skip
        if of["near"] is not None:
            key, values = of["near"]
            here = {"key": key, "operator": "In", "values": values}
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        if reserved is not None:
            made["claimRef"] = {"namespace": "default", "name": self._name(reserved)}
        metadata = {"name": self._name(f"v{number}"), "labels": labels, "annotations": annotations}
        volume = await self._with_phase({"metadata": metadata, "spec": made}, of["phase"])
        self._shim.volumes.volume_changed(volume)

    async def _with_phase(self, manifest: dict[str, Any], phase: str) -> Volume:
        """As the controller of volumes leaves it."""
        await self._client.create(VOLUMES, manifest)
        path = f"{VOLUMES}/{manifest['metadata']['name']}/status"
        patched = await self._client.patch(path, {"status": {"phase": phase}}, MERGE_PATCH)
        return msgspec.json.decode(patched, type=Volume)

    async def add_claim(self, name: str, of: dict[str, Any], size: int) -> None:
        annotations, spec = self._of_class(of)
        if of["selected"]:
            annotations = annotations | {SELECTED_NODE: of["selected"]}
        made: dict[str, Any] = {
            **spec, "accessModes": of["modes"], "volumeMode": of["volumeMode"],
            "resources": {"requests": {"storage": f"{size}Gi"}},
        }  # fmt: skip
        if of["selector"]:
            made["selector"] = {"matchLabels": of["selector"]}
        metadata = {"name": self._name(name), "annotations": annotations}
        self._shim.volumes.claim_changed(await self._create(CLAIMS, {"metadata": metadata, "spec": made}, Claim))

    async def compare(self, claims: tuple[str, ...], node: str | None) -> None:
        for one in (await self._client.list(NODES))[0]:
            self._shim.node_changed(one)
        await self._until_seen()
        names = [self._name(one) for one in claims]
        selector: dict[str, Any] = {"nodeSelector": {HOST: node}} if node is not None else {}
        manifest = pod(self._name("asked"), scheduler="default-scheduler", **with_claims(*names), **selector)
        asked = await self._create(IN_DEFAULT, manifest, Pod)
        self._shim.pod_changed(asked)
        ours = self._choices(asked)
        is_selected = any(one.selected_node for one in self._shim.cache.storage.late_claims(asked))
        try:
            if ours and is_selected:
                return  # what is written already does not show a choice; a refusal would
            theirs = await self._choice(asked, names)
            assert theirs in ours if theirs is not None else not ours, f"{theirs}: expected one of {ours}"
        finally:
            await delete(self._client, asked.metadata.name)

    def _choices(self, asked: Pod) -> list[dict[str, str]]:
        """For each node that suits the pod: the volume of each claim, or the node for which it is made."""
        found, storage = [], self._shim.cache.storage
        for name in NAMES:
            if self._shim.predicates.refusal(asked.uid, name):
                continue
            plan = storage.plan(asked, self._shim.cache.nodes[name].node, jointly=False)
            given = {claim.metadata.name: volume.metadata.name for volume, claim in plan.given}
            found.append(given | {claim.metadata.name: name for claim in plan.made})
        return found

    async def _choice(self, asked: Pod, claims: list[str]) -> dict[str, str] | None:
        """Once the scheduler has written all of it. None: it has refused the pod."""
        async with asyncio.timeout(60):
            while True:
                found = await self._client.get(f"{IN_DEFAULT}/{asked.metadata.name}", Pod)
                if any(one.type == "PodScheduled" and one.status == "False" for one in found.status.conditions):
                    return None
                written = await self._written(claims)
                if len(written) == len(claims):
                    return written
                await asyncio.sleep(0.005)

    async def _written(self, claims: list[str]) -> dict[str, str]:
        written = {}
        for name in self._shim.cache.storage.volumes:
            of = (await self._client.get(f"{VOLUMES}/{name}", Volume)).spec.claim_ref
            if of is not None and of.uid:
                written[of.name] = name
        for name in claims:
            selected = (await self._client.get(f"{CLAIMS}/{name}", Claim)).selected_node
            if selected and not self._shim.cache.storage.claims["default", name].selected_node:
                written[name] = selected
        return written

    async def compare_ephemeral(self, owner: dict[str, Any] | None) -> None:
        await self.add_classes(None)
        for one in (await self._client.list(NODES))[0]:
            self._shim.node_changed(one)
        await self._until_seen()
        spec = {
            "storageClassName": self._name("made"), "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }  # fmt: skip
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
        manifest = pod(self._name("asked"), scheduler="default-scheduler", volumes=volumes)
        asked = await self._create(IN_DEFAULT, manifest, Pod)
        self._shim.pod_changed(asked)
        try:
            assert not self._choices(asked)
            refused = await self._refusal(asked)
            metadata: dict[str, Any] = {"name": f"{asked.metadata.name}-scratch"}
            if owner is not None:
                of_pod = {"apiVersion": "v1", "kind": "Pod", "name": asked.metadata.name, "uid": asked.uid}
                metadata["ownerReferences"] = [{**of_pod, **owner}]
            made = await self._create(CLAIMS, {"metadata": metadata, "spec": spec}, Claim)
            self._shim.volumes.claim_changed(made)
            node = await self._selected(asked, made.metadata.name, refused)
            ours = [choice[made.metadata.name] for choice in self._choices(asked)]
            assert node in ours if node else not ours, f"{node or 'refused'}: expected one of {ours}"
        finally:
            await delete(self._client, asked.metadata.name)

    async def _selected(self, asked: Pod, claim: str, refused: str) -> str:
        """The node for which the volume is to be made; empty: the scheduler says something else than before."""
        async with asyncio.timeout(60):
            while True:
                if node := (await self._client.get(f"{CLAIMS}/{claim}", Claim)).selected_node:
                    return node
                if await self._refusal(asked) != refused:
                    return ""
                await asyncio.sleep(0.005)

    async def _refusal(self, asked: Pod) -> str:
        """Why the scheduler has refused the pod, once it has."""
        async with asyncio.timeout(60):
            while True:
                found = await self._client.get(f"{IN_DEFAULT}/{asked.metadata.name}", Pod)
                for one in found.status.conditions:
                    if one.type == "PodScheduled" and one.status == "False":
                        return one.message
                await asyncio.sleep(0.005)

    async def _until_seen(self) -> None:
        """The scheduler has seen all of it when it has given away a volume that came after all others."""
        name, client = self._name("last"), self._client
        both = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
        volume = {**both, "capacity": {"storage": "1Gi"}, "csi": {"driver": "other", "volumeHandle": name}}
        claim = {**both, "resources": {"requests": {"storage": "1Gi"}}}
        await client.create(CLASSES, _class(name, NO_PROVISIONER))
        await self._with_phase({"metadata": {"name": name}, "spec": volume}, "Available")
        await client.create(CLAIMS, {"metadata": {"name": name}, "spec": claim})
        await client.create(IN_DEFAULT, pod(name, scheduler="default-scheduler", **with_claims(name)))
        async with asyncio.timeout(60):
            for number in itertools.count():
                if (await client.get(f"{VOLUMES}/{name}", Volume)).spec.claim_ref is not None:
                    break
                # A pod that the scheduler tried before all of its caches had the claim waits for a minute, because no
                # further event concerns it. Each change of the pod makes the scheduler try it again.
                if number % 200 == 199:
                    tried = {"metadata": {"annotations": {"tried": str(number)}}}
                    await client.patch(f"{IN_DEFAULT}/{name}", tried, MERGE_PATCH)
                await asyncio.sleep(0.005)
        await delete(client, name)


def _class(name: str, provisioner: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
