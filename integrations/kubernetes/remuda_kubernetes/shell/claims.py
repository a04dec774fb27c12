"""Writes claims of devices: their allocation, and the pod that may use them. Both are written before the pod is bound,
at the version of the claim that the decision was made for."""

from __future__ import annotations

from typing import Any

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import MERGE_PATCH, ApiError, Away, Client, Conflict, NotFound
from remuda_kubernetes.api.objects import CLAIM_FINALIZER, Pod, ResourceClaim
from remuda_kubernetes.shim.devices import Write, is_as_written
from remuda_kubernetes.shim.effects import GiveBack, PodName


class ClaimRefused(ApiError):
    """A claim cannot be what the binding of its pod needs."""


async def give(client: Client, write: Write, pod: PodName) -> None:
    """Allocate the claim as decided, and reserve it for the pod; what an earlier attempt has done stays. Raises
    ClaimRefused: others have changed the claim, or the API server refuses it; Away."""
    claim = write.claim
    path = _path(claim)
    try:
        for _ in range(limits.CLAIM_ATTEMPTS):
            try:
                await _give(client, path, claim, write, pod)
                return
            except Conflict:
                claim = await client.get(path, ResourceClaim)
    except (Away, ClaimRefused):
        raise
    except ApiError as error:
        raise ClaimRefused(f"ResourceClaim {claim.metadata.name}: {error.reason}", error.code) from None
    raise Away(f"ResourceClaim {claim.metadata.name} changes all the time", 0)


async def _give(client: Client, path: str, claim: ResourceClaim, write: Write, pod: PodName) -> None:
    name, of = claim.metadata.name, claim.status.allocation
    if claim.metadata.uid != write.claim.metadata.uid:
        raise ClaimRefused(f"ResourceClaim {name} was made anew", 0)
    status: dict[str, Any] = {"reservedFor": _consumers(claim, without="")}
    if of is None:
        if write.allocation is None:
            raise ClaimRefused(f"ResourceClaim {name} is not allocated any more", 0)
        claim = await _protect(client, path, claim)
        status = {"allocation": write.allocation, "reservedFor": []}
    elif write.allocation is not None and not is_as_written(claim, write.allocation):
        raise ClaimRefused(f"ResourceClaim {name} was allocated otherwise meanwhile", 0)
    elif claim.is_reserved_for(pod.uid):
        return
    status["reservedFor"].append({"resource": "pods", "name": pod.name, "uid": pod.uid})
    await _write_status(client, path, claim, status)


async def _protect(client: Client, path: str, claim: ResourceClaim) -> ResourceClaim:
    """An allocated claim is not deleted before its controller has freed it."""
    of = claim.metadata
    if CLAIM_FINALIZER in of.finalizers:
        return claim
    metadata = {"uid": of.uid, "resourceVersion": of.resource_version, "finalizers": [*of.finalizers, CLAIM_FINALIZER]}
    written = await client.patch(path, {"metadata": metadata}, MERGE_PATCH)
    return msgspec.json.decode(written, type=ResourceClaim)


async def give_back(client: Client, change: GiveBack) -> None:
    """Take back what was written for a pod, unless it is bound: then it uses the claims. A pod that is gone is left to
    the controller of claims. Raises ApiError."""
    pod = change.pod
    try:
        there = await client.get(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", Pod)
    except NotFound:
        return
    if there.uid != pod.uid or there.spec.node_name:
        return
    for one in change.claims:
        await _take(client, one, pod)


async def _take(client: Client, claim: ResourceClaim, pod: PodName) -> None:
    path = _path(claim)
    try:
        there = await client.get(path, ResourceClaim)
        if there.metadata.uid != claim.metadata.uid or not there.is_reserved_for(pod.uid):
            return
        left = _consumers(there, without=pod.uid)
        await _write_status(
            client, path, there, {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
        )
    except NotFound:
        return
    except Conflict as conflict:  # read it again
        raise Away(conflict.reason, conflict.code) from None


async def _write_status(client: Client, path: str, claim: ResourceClaim, status: dict[str, Any]) -> None:
    metadata = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
    await client.patch(f"{path}/status", {"metadata": metadata, "status": status}, MERGE_PATCH)


def _consumers(claim: ResourceClaim, without: str) -> list[dict[str, str]]:
    consumers: list[dict[str, str]] = [
        msgspec.to_builtins(one) for one in claim.status.reserved_for if one.uid != without
    ]
    return [{key: value for key, value in one.items() if value} for one in consumers]


def _path(claim: ResourceClaim) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.metadata.namespace}/resourceclaims/{claim.metadata.name}"
