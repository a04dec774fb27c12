"""Bugs of the Kubernetes front end with volumes, devices and pods of DaemonSets, each put into the running code."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_kubernetes.api.client import MERGE_PATCH
from remuda_kubernetes.api.objects import Claim, Node, Pod, PodVolume, Volume
from remuda_kubernetes.plugin.plugin import PluginShim
from remuda_kubernetes.predicates import on_node, volumes
from remuda_kubernetes.predicates.places import EVERYWHERE
from remuda_kubernetes.shell.calls import Calls
from remuda_kubernetes.shim import pod_reading
from remuda_kubernetes.shim.cache import Cache
from remuda_kubernetes.shim.device_claims import DeviceClaims
from remuda_kubernetes.shim.devices import Devices
from remuda_kubernetes.shim.effects import Bind
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.volumes import Volumes

from ..mutants import Mutant
from .world import OTHER


def volumes_are_taken_from_others(patch: pytest.MonkeyPatch) -> None:
    """A volume is reserved whatever has become of it, and what was decided before is not remembered."""

    async def reserve(calls: Calls, volume: Volume, claim: Claim) -> None:
        namespace, name = claim.key
        reference = {"namespace": namespace, "name": name, "uid": claim.metadata.uid}
        path = f"/api/v1/persistentvolumes/{volume.metadata.name}"
        await calls._client.patch(path, {"metadata": {}, "spec": {"claimRef": reference}}, MERGE_PATCH)

    patch.setattr(Calls, "_reserve", reserve)
    patch.setattr(volumes.Storage, "assume", lambda *_: None)


def pods_do_not_wait_for_their_volumes(patch: pytest.MonkeyPatch) -> None:
    """A pod is bound as soon as it is allocated."""
    patch.setattr(Shim, "begin", lambda shim, entry, node: shim.cache.emit(Bind(entry.name, node)))


def volumes_are_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Where a volume is does not count."""
    patch.setattr(volumes, "_is_near", lambda *_: True)
    patch.setattr(volumes, "places_of_terms", lambda _: [EVERYWHERE])


def provisioners_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    """That a volume cannot be made for a node is not noticed, and a claim has any time to be bound."""
    patch.setattr(Volumes, "_not_made", lambda *_: None)
    patch.setattr(Volumes, "sweep", lambda *_: None)


def exclusive_claims_are_shared(patch: pytest.MonkeyPatch) -> None:
    """A claim for one pod is given to several."""
    patch.setattr(volumes, "exclusive_claims", lambda *_: [])


def nodes_attach_any_number(patch: pytest.MonkeyPatch) -> None:
    """The limits of drivers do not count."""
    patch.setattr(volumes, "limits_refusal", lambda *_: "")


def pods_with_claims_are_asked_for_once(patch: pytest.MonkeyPatch) -> None:
    """A pod whose claims cannot be bound yet is not looked at again."""
    patch.setattr(Volumes, "_look_again", lambda *_: None)


def daemons_go_anywhere(patch: pytest.MonkeyPatch) -> None:
    """The node that the affinity of a DaemonSet's pod names does not count."""
    patch.setattr(pod_reading, "required_node_of", lambda _: "")
    patch.setattr(on_node, "node_selected", lambda *_: True)


def daemons_wait_for_another_node(patch: pytest.MonkeyPatch) -> None:
    """The ask of a DaemonSet's pod names a node that does not exist."""
    required_node_of = pod_reading.required_node_of

    def another(pod: Pod) -> Any:
        node = required_node_of(pod)
        return node and f"another-{node}"

    patch.setattr(pod_reading, "required_node_of", another)


def ephemeral_volumes_are_no_claims(patch: pytest.MonkeyPatch) -> None:
    """A pod does not wait for the claims that are made for its ephemeral volumes."""
    claim_name = volumes._claim_name

    def named(pod: Pod, volume: PodVolume) -> str:
        return "" if volume.ephemeral is not None else claim_name(pod, volume)

    patch.setattr(volumes, "_claim_name", named)


def claims_of_earlier_pods_are_used(patch: pytest.MonkeyPatch) -> None:
    """A pod takes the claim that was made for an earlier pod of its name."""
    patch.setattr(Claim, "is_controlled_by", lambda *_: True)


# In plugin mode


def volumes_are_bound_before_the_approval(patch: pytest.MonkeyPatch) -> None:
    """The front end has the claims bound of pods that the default scheduler places."""
    patch.setattr(PluginShim, "begin", Shim.begin)


def volumes_of_approved_pods_are_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Where the volumes are of pods that the default scheduler places does not count."""
    refusal = volumes.Storage._bound_refusal

    def of_others(storage: volumes.Storage, pod: Pod, node: Node) -> str:
        return "" if pod.spec.scheduler_name == OTHER else refusal(storage, pod, node)

    patch.setattr(volumes.Storage, "_bound_refusal", of_others)


def volumes_of_approved_pods_are_free(patch: pytest.MonkeyPatch) -> None:
    """Pods are approved for the same volume."""
    patch.setattr(PluginShim, "_take_volumes", lambda *_: ())


VOLUME_MUTANTS: tuple[Mutant, ...] = (
    volumes_are_taken_from_others, pods_do_not_wait_for_their_volumes, volumes_are_everywhere,
    provisioners_are_not_heard, exclusive_claims_are_shared, nodes_attach_any_number,
    pods_with_claims_are_asked_for_once, daemons_go_anywhere, daemons_wait_for_another_node,
    ephemeral_volumes_are_no_claims, claims_of_earlier_pods_are_used, volumes_are_bound_before_the_approval,
    volumes_of_approved_pods_are_everywhere, volumes_of_approved_pods_are_free,
)  # fmt: skip


# With devices


def devices_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """Devices that claims have are not occupied, and may be given to others."""
    patch.setattr(Cache, "devices_occupied", lambda *_: {})
    patch.setattr(Devices, "conflict", lambda *_: "")


def pods_do_not_wait_for_their_devices(patch: pytest.MonkeyPatch) -> None:
    """A pod is bound, and nothing is written into its claims."""
    patch.setattr(DeviceClaims, "writes", lambda *_: ())


def devices_are_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Where the devices of an allocated claim are does not count."""
    patch.setattr(Devices, "refusal", lambda *_: "")


def pods_with_devices_are_asked_for_once(patch: pytest.MonkeyPatch) -> None:
    """A pod whose claims cannot be allocated yet is not looked at again."""
    patch.setattr(DeviceClaims, "_look_again", lambda *_: None)


DEVICE_MUTANTS: tuple[Mutant, ...] = (
    devices_are_given_twice, pods_do_not_wait_for_their_devices, devices_are_everywhere,
    pods_with_devices_are_asked_for_once,
)  # fmt: skip
