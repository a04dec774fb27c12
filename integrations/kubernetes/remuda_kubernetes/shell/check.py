"""Checks a cluster for what an installation needs: version, rights, the webhook, the policy of gates, service accounts.
Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from remuda_kubernetes.api.client import GROUP_OBJECTS, RESOURCE_CLAIMS, Client, NotFound, Rejected
from remuda_kubernetes.plugin.plugin import minor_of
from remuda_kubernetes.webhook.registration import NAME

Level: TypeAlias = Literal["good", "warning", "problem"]
Mode: TypeAlias = Literal["shim", "plugin"]

OLDEST: Final = 20
GATES_SINCE: Final = 30  # a policy of the API server can keep gates
READ: Final = ("get", "list", "watch")
# (API group, resource, verbs): what the front end cannot do without, and what it does without.
Right: TypeAlias = tuple[str, str, tuple[str, ...]]
NEEDED: Final[tuple[Right, ...]] = (
    ("", "nodes", READ), ("", "namespaces", READ), ("", "pods", (*READ, "create", "delete")),
    ("", "pods/binding", ("create",)), ("", "pods/eviction", ("create",)), ("", "pods/status", ("patch",)),
    ("events.k8s.io", "events", ("create", "patch")), ("", "persistentvolumes", (*READ, "patch")),
    ("", "persistentvolumeclaims", (*READ, "patch")),
    *(("storage.k8s.io", name, READ) for name in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities",
                                                  "volumeattachments")),
    ("scheduling.k8s.io", "priorityclasses", READ), ("policy", "poddisruptionbudgets", READ),
)  # fmt: skip
OPTIONAL: Final[tuple[Right, ...]] = (
    ("scheduling.k8s.io", "podgroups", READ), ("scheduling.k8s.io", "workloads", READ),
    ("scheduling.x-k8s.io", "podgroups", READ), ("scheduling.volcano.sh", "podgroups", READ),
    ("jobset.x-k8s.io", "jobsets", READ), ("resource.k8s.io", "deviceclasses", READ),
    ("resource.k8s.io", "resourceslices", READ), ("resource.k8s.io", "resourceclaims", (*READ, "patch")),
    ("resource.k8s.io", "resourceclaims/status", ("patch",)), ("resource.k8s.io", "resourceclaims/binding", ("patch",)),
)  # fmt: skip
OF_PLUGIN: Final[tuple[Right, ...]] = (("", "pods", ("patch",)),)


@dataclass(frozen=True, slots=True)
class Finding:
    """`what`: what was found. `remedy`: what helps; empty: nothing needs to be done."""

    level: Level
    what: str
    remedy: str = ""


class _Verdict(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Reviewed(msgspec.Struct, frozen=True):
    status: _Verdict = _Verdict()


async def check(client: Client, mode: Mode, namespace: str, account: str) -> AsyncIterator[Finding]:
    """The findings, one after the other. `account`: the service account of the front end, in `namespace`. Raises
    ApiError when the API server does not answer, or does not let the caller ask."""
    version = msgspec.json.decode(await client.call("GET", "/version"), type=dict[str, str])
    minor = minor_of(version)
    if minor < OLDEST:
        yield Finding("problem", f"Kubernetes 1.{minor}", f"use Kubernetes 1.{OLDEST} or later")
    else:
        yield Finding("good", f"Kubernetes 1.{minor}")
    yield await _account(client, namespace, account)
    user = f"system:serviceaccount:{namespace}:{account}"
    needed = (*NEEDED, *(OF_PLUGIN if mode == "plugin" else ()))
    async for finding in _rights(client, user, needed, "problem", "apply deploy/kubernetes/scheduler/rights.yaml"):
        yield finding
    async for finding in _rights(client, user, OPTIONAL, "warning", "gangs and devices of others are not read"):
        yield finding
    async for finding in _webhook(client):
        yield finding
    policy = f"{_ADMISSION}/validatingadmissionpolicies/remuda-gates"
    if mode == "plugin" and minor >= GATES_SINCE and not await _exists(client, policy):
        remedy = "apply deploy/kubernetes/plugin/gates.yaml, or users may remove gates where the webhook is not called"
        yield Finding("warning", "no policy keeps the scheduling gate", remedy)
    served = [kind for kind, resource in GROUP_OBJECTS.items() if await _exists(client, f"{resource.path}?limit=1")]
    has_claims = await _exists(client, f"{RESOURCE_CLAIMS.path}?limit=1")
    yield Finding("good", f"claims of devices: {'there are' if has_claims else 'the API server has none'}")
    yield Finding("good", f"gangs of others: {', '.join(served) or 'the API server has no objects of them'}")


_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_CONTROLLER: Final = "/api/v1/namespaces/kube-system/serviceaccounts/replicaset-controller"


async def _account(client: Client, namespace: str, account: str) -> Finding:
    if await _exists(client, f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"):
        return Finding("good", f"service account {namespace}/{account}")
    return Finding("problem", f"there is no service account {namespace}/{account}", "name it by --account")


async def _rights(
    client: Client, user: str, rights: Iterable[Right], level: Level, remedy: str
) -> AsyncIterator[Finding]:
    missing = [
        f"{verb} {resource}{f'.{group}' if group else ''}"
        for group, resource, verbs in rights
        for verb in verbs
        if not await _may(client, user, group, resource, verb)
    ]
    if missing:
        yield Finding(level, f"{user} has no right to {', '.join(missing)}", remedy)
    elif level == "problem":
        yield Finding("good", "all rights that the front end needs")


async def _may(client: Client, user: str, group: str, resource: str, verb: str) -> bool:
    name, _, part = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": part}
    namespace = user.split(":")[2]
    groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }  # fmt: skip
    answer = await client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return msgspec.json.decode(answer, type=_Reviewed).status.allowed


async def _webhook(client: Client) -> AsyncIterator[Finding]:
    """Without the webhook every user may name any user. With it, controllers have to have users of their own."""
    if not await _exists(client, f"{_ADMISSION}/mutatingwebhookconfigurations/{NAME}"):
        remedy = "apply deploy/kubernetes/webhook, or trust all who may create pods"
        yield Finding("warning", "the admission webhook is not registered: pods may name any user", remedy)
        return
    yield Finding("good", "the admission webhook is registered")
    if not await _exists(client, _CONTROLLER):
        remedy = "start it with --use-service-account-credentials, or name its user in kubernetes.system_users"
        yield Finding("warning", "the controller manager has one user for all its controllers", remedy)


async def _exists(client: Client, path: str) -> bool:
    """Whether the object exists. An object that may not be read counts as missing. Raises ApiError."""
    page, _, query = path.partition("?")
    try:
        await client.call("GET", page, query={"limit": "1"} if query else None)
    except (NotFound, Rejected):
        return False
    return True
