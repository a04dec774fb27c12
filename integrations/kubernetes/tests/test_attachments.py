"""Volumes of pods on nodes: limits, disks of one pod, claims of one pod, and room for new volumes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.client import Resource
from remuda_kubernetes.api.objects import (
    BIND_COMPLETED,
    Claim,
    CsiDriver,
    CsiNode,
    Node,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from remuda_kubernetes.predicates.volumes import MIGRATED
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import Controller
from remuda_kubernetes.shim.effects import Ask
from remuda_kubernetes.shim.shim import Shim

CSI = "disk.example"


def named(name: str, **of: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, **of.pop("metadata", {})}, **of}


def add_claim(to: Shim, name: str, *modes: str, volume: dict[str, Any] | None = None, of: str = "") -> None:
    """A claim that is bound to a volume with this source, or one that binds late."""
    bound = f"pv-{name}" if volume is not None else ""
    resources = {"requests": {"storage": "5Gi"}}
    spec = {"volumeName": bound, "accessModes": list(modes), "storageClassName": of, "resources": resources}
    if volume is not None:
        to.volumes.volume_changed(msgspec.convert(named(bound, spec=volume), Volume))
    annotations = {BIND_COMPLETED: "yes"} if bound else {}
    to.volumes.claim_changed(msgspec.convert(named(name, metadata={"annotations": annotations}, spec=spec), Claim))


def csi(handle: str) -> dict[str, Any]:
    return {"csi": {"driver": CSI, "volumeHandle": handle}}


def ebs(disk: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": disk}}


def with_claims(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def with_disk(**of: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "d", **of}]}


def limited(to: Shim, on: str, count: int, driver: str = CSI, migrated: str = "") -> None:
    drivers = [{"name": driver, "nodeID": on, "allocatable": {"count": count}}]
    made = named(on, metadata={"annotations": {MIGRATED: migrated}}, spec={"drivers": drivers})
    to.volumes.csi_node_changed(msgspec.convert(made, CsiNode))


def feasible(of: Shim, name: str = "p", *without: str) -> set[str]:
    return {one for one in ("n1", "n2") if not of.predicates.refusal(f"uid-{name}", one, without)}


def test_bound_claim_counts_before_its_volume_is_observed() -> None:
    """As for the default scheduler, by its class."""
    it = shim("n1", "n2")
    limited(it, "n1", 1)
    it.volumes.class_changed(msgspec.convert(named("fast", provisioner=CSI), StorageClass))
    add_claim(it, "a", volume=csi("a"), of="fast")
    add_claim(it, "b", volume=csi("b"), of="fast")
    it.pod_changed(pod("other", app="app", node="n1", **with_claims("a")))
    it.volumes.volume_gone(it.cache.storage.volumes["pv-a"])
    it.pod_changed(pod("p", app="app", **with_claims("b")))
    assert feasible(it) == {"n2"}


def test_node_attaches_no_more_volumes_of_a_driver_than_it_says() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 2)
    for name in ("a", "b", "c"):
        add_claim(it, name, volume=csi(name))
    it.pod_changed(pod("there", node="n1", **with_claims("a", "b")))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.pod_changed(pod("same", app="app", **with_claims("b")))
    assert feasible(it) == {"n2"}
    assert feasible(it, "p", "uid-there") == {"n1", "n2"}
    assert feasible(it, "same") == {"n1", "n2"}  # attached already
    limited(it, "n1", 3)
    assert feasible(it) == {"n1", "n2"}


def attached(name: str, volume: str | None, node: str = "n1", driver: str = CSI) -> VolumeAttachment:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert(named(name, spec=spec), VolumeAttachment)


def test_volume_that_is_not_detached_yet_counts() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 2)
    for name in ("a", "b", "c"):
        add_claim(it, name, volume=csi(name))
    it.pod_changed(pod("there", node="n1", **with_claims("a")))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.volumes.attachment_changed(attached("va-a", "pv-a"))
    assert feasible(it) == {"n1", "n2"}  # it is that of the pod there
    it.volumes.attachment_changed(attached("va-b", "pv-b"))
    assert feasible(it) == {"n2"}
    it.volumes.attachment_changed(attached("va-c", "pv-c"))
    assert feasible(it) == {"n1", "n2"}  # its own is attached already
    it.volumes.attachment_gone(attached("va-c", "pv-c"))
    it.pod_gone(pod("there", node="n1", **with_claims("a")))
    assert feasible(it) == {"n2"}
    for name in "ab":
        it.volumes.attachment_gone(attached(f"va-{name}", f"pv-{name}"))
    assert feasible(it) == {"n1", "n2"}
    assert not it.cache.storage.attached


@pytest.mark.parametrize("volume", [None, "pv-unknown"], ids=["inline", "unknown"])
def test_attachment_without_a_volume_that_is_known_counts_for_its_driver(volume: str | None) -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 1)
    add_claim(it, "c", volume=csi("c"))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.volumes.attachment_changed(attached("va", volume, driver="another"))
    assert feasible(it) == {"n1", "n2"}
    it.volumes.attachment_changed(attached("vb", volume))
    assert feasible(it) == {"n2"}


def test_attachment_of_a_plugin_that_a_driver_replaces_is_the_volume_of_its_pod() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 2, "ebs.csi.aws.com", "kubernetes.io/aws-ebs")
    for name in "ab":
        add_claim(it, name, volume=ebs(name))
    it.pod_changed(pod("there", node="n1", **with_claims("a")))
    it.pod_changed(pod("p", app="app", **with_claims("b")))
    it.volumes.attachment_changed(attached("va", "pv-a", driver="ebs.csi.aws.com"))
    assert feasible(it) == {"n1", "n2"}


def test_volume_of_a_victim_is_detached_with_it() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 1)
    for name in "ab":
        add_claim(it, name, volume=csi(name))
    it.pod_changed(pod("there", node="n1", **with_claims("a")))
    it.pod_changed(pod("p", app="app", **with_claims("b")))
    it.volumes.attachment_changed(attached("va-a", "pv-a"))
    assert feasible(it) == {"n2"}
    assert feasible(it, "p", "uid-there") == {"n1", "n2"}


def test_volume_that_is_attached_elsewhere_keeps_no_pod_off() -> None:
    """As with the default scheduler, whatever its access modes: it is detached there when its pod has ended."""
    it = shim("n1", "n2")
    limited(it, "n2", 1)
    add_claim(it, "c", "ReadWriteOnce", volume=csi("c"))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.volumes.attachment_changed(attached("va", "pv-c", "n1"))
    assert feasible(it) == {"n1", "n2"}


def test_volume_that_is_made_later_counts_for_its_driver() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 1)
    late = named("late", provisioner=CSI, volumeBindingMode="WaitForFirstConsumer")
    it.volumes.class_changed(msgspec.convert(late, StorageClass))
    add_claim(it, "a", volume=csi("a"))
    add_claim(it, "b", of="late")
    it.pod_changed(pod("there", node="n1", **with_claims("a")))
    it.pod_changed(pod("p", app="app", **with_claims("b")))
    assert feasible(it) == {"n2"}


@pytest.mark.parametrize(
    ("allocatable", "labels", "already", "expected"),
    [
        ({}, {}, 38, True),
        ({}, {}, 39, False),
        ({}, {"node.kubernetes.io/instance-type": "m5.large"}, 25, False),
        ({"attachable-volumes-aws-ebs": "3"}, {}, 2, True),
        ({"attachable-volumes-aws-ebs": "3"}, {}, 3, False),
    ],
    ids=["room", "full", "few", "said", "said full"],
)
def test_disks_of_kubernetes_itself_have_limits(
    allocatable: dict[str, str], labels: dict[str, Any], already: int, expected: bool
) -> None:
    it = shim()
    one = msgspec.to_builtins(node("n1", **labels))
    one["status"]["allocatable"] |= allocatable
    it.node_changed(msgspec.convert(one, Node))
    for number in range(already + 1):
        add_claim(it, f"c{number}", volume=ebs(f"vol-{number}"))
    it.pod_changed(pod("there", node="n1", **with_claims(*(f"c{number}" for number in range(already)))))
    it.pod_changed(pod("p", app="app", **with_claims(f"c{already}")))
    assert feasible(it) == ({"n1"} if expected else set())


def test_driver_that_replaces_a_plugin_counts_its_volumes() -> None:
    it = shim("n1", "n2")
    limited(it, "n1", 1, "ebs.csi.aws.com", "kubernetes.io/aws-ebs")
    add_claim(it, "a", volume={"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "a"}})
    add_claim(it, "b", volume=ebs("b"))
    it.pod_changed(pod("there", node="n1", **with_claims("a")))
    it.pod_changed(pod("p", app="app", **with_claims("b")))
    assert feasible(it) == {"n2"}


GCE = {"gcePersistentDisk": {"pdName": "d"}}
READ = {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}
RBD: dict[str, Any] = {"monitors": ["a", "b"], "pool": "p", "image": "i"}


@pytest.mark.parametrize(
    ("own", "there", "expected"),
    [
        (GCE, GCE, {"n2"}),
        (GCE, READ, {"n2"}),
        (READ, READ, {"n1", "n2"}),
        (GCE, {"gcePersistentDisk": {"pdName": "e"}}, {"n1", "n2"}),
        (ebs("d"), ebs("d"), {"n2"}),
        (ebs("d"), GCE, {"n1", "n2"}),
        ({"iscsi": {"iqn": "q"}}, {"iscsi": {"iqn": "q", "readOnly": True}}, {"n2"}),
        ({"rbd": RBD}, {"rbd": RBD | {"monitors": ["b"]}}, {"n2"}),
        ({"rbd": RBD}, {"rbd": RBD | {"monitors": ["c"]}}, {"n1", "n2"}),
        ({"rbd": RBD | {"readOnly": True}}, {"rbd": RBD | {"readOnly": True}}, {"n1", "n2"}),
    ],
)
def test_disk_that_one_pod_of_a_node_may_use(own: dict[str, Any], there: dict[str, Any], expected: set[str]) -> None:
    it = shim("n1", "n2")
    it.pod_changed(pod("there", node="n1", **with_disk(**there)))
    it.pod_changed(pod("p", app="app", **with_disk(**own)))
    assert feasible(it) == expected


def test_claim_of_one_pod_is_in_use_everywhere() -> None:
    it = shim("n1", "n2")
    add_claim(it, "c", "ReadWriteOncePod", volume=csi("c"))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    assert feasible(it) == {"n1", "n2"}
    it.pod_changed(pod("there", node="n1", **with_claims("c")))
    assert it.predicates.refusal("uid-p", "n2") == "claim c is in use by default/there, and is for one pod"
    assert feasible(it) == set()
    assert feasible(it, "p", "uid-there") == {"n1", "n2"}
    it.pod_gone(pod("there", node="n1", **with_claims("c")))
    assert feasible(it) == {"n1", "n2"}
    assert not it.cache._claim_users


def capacity(name: str, zone: str, amount: str = "9Gi", **of: Any) -> StorageCapacity:
    topology = {"matchLabels": {"zone": zone}}
    made = named(name, storageClassName="late", nodeTopology=topology, capacity=amount, **of)
    return msgspec.convert(made, StorageCapacity)


def test_new_volume_needs_room_where_its_driver_says_how_much_is_left() -> None:
    it = shim()
    it.node_changed(node("n1", zone="a"))
    it.node_changed(node("n2", zone="b"))
    late = named("late", provisioner=CSI, volumeBindingMode="WaitForFirstConsumer")
    it.volumes.class_changed(msgspec.convert(late, StorageClass))
    add_claim(it, "c", of="late")
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    assert feasible(it) == {"n1", "n2"}  # it does not say
    driver = msgspec.convert(named(CSI, spec={"storageCapacity": True}), CsiDriver)
    it.volumes.driver_changed(driver)
    assert feasible(it) == set()
    it.volumes.capacity_changed(capacity("a", "a"))
    it.volumes.capacity_changed(capacity("b", "b", "4Gi"))
    assert feasible(it) == {"n1"}
    it.volumes.capacity_changed(capacity("b", "b", maximumVolumeSize="1Gi"))
    assert feasible(it) == {"n1"}
    it.volumes.capacity_gone(capacity("a", "a"))
    assert feasible(it) == set()
    it.cache.storage.has_capacities = False  # the API server is too old for them
    assert feasible(it) == {"n1", "n2"}
    it.cache.storage.has_capacities = True
    it.volumes.driver_gone(driver)
    assert feasible(it) == {"n1", "n2"}


@pytest.mark.parametrize(("minor", "api"), [(20, None), (21, "v1beta1"), (23, "v1beta1"), (24, "v1"), (36, "v1")])
async def test_room_for_volumes_is_read_where_the_api_server_has_it(minor: int, api: str | None) -> None:
    """Before 1.21, no object says how much is left: a driver that says it reports that keeps no pod waiting."""
    client = Listed()
    controller = Controller(object(), client, KubernetesSettings(), it := shim(), minor)  # type: ignore[arg-type]
    for one in controller._reflectors():
        with suppress(Stop):
            await one.run()
    expected = [] if api is None else [f"/apis/storage.k8s.io/{api}/csistoragecapacities"]
    assert [path for path in client.paths if "capacities" in path] == expected
    assert it.cache.storage.has_capacities == bool(expected)


class Stop(Exception):
    pass


class Listed:
    """A client that is asked for one list of each kind."""

    namespace = "remuda"

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.eviction_version = "policy/v1"

    async def list(self, resource: Resource[Any]) -> None:
        self.paths.append(resource.path)
        raise Stop

    async def watch(self, resource: Resource[Any], _: str) -> AsyncIterator[None]:
        self.paths.append(resource.path)
        raise Stop
        yield


@pytest.mark.parametrize("more", ["limit", "detached"])
def test_pod_is_asked_for_again_when_its_node_can_attach_its_volume(more: str) -> None:
    it = shim("n1")
    limited(it, "n1", 1)
    for name in "ac":
        add_claim(it, name, volume=csi(name))
    it.volumes.attachment_changed(attached("va", "pv-a"))
    it.pod_changed(pod("p", app="app", **with_claims("c")))
    it.sweep()
    (ask,) = [effect.ask for effect in it.take() if isinstance(effect, Ask)]
    (verdict,) = it.questions.verdicts("uid-p", ask.tags["remuda/predicateClass"], ["n1"])
    assert verdict.reason == "node attaches at most 1 volumes of disk.example"
    it.sweep()
    assert it.take() == []
    if more == "limit":
        limited(it, "n1", 2)
    else:
        it.volumes.attachment_gone(attached("va", "pv-a"))
    it.sweep()
    assert [type(effect) for effect in it.take()] == [Ask]
