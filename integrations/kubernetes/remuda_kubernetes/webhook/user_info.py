"""The annotation that says for which user a pod runs: who may write it, and what is filled in. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from remuda_kubernetes.shim import go_json, names
from remuda_kubernetes.webhook.policy import Caller, WebhookPolicy

Json = dict[str, Any]

# The pod template of each kind: where its metadata is.
TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


class Denied(Exception):
    """A request is refused, and why."""


class _UserInfo(msgspec.Struct, forbid_unknown_fields=True):
    user: str = ""
    groups: tuple[str, ...] = ()


_USER_INFO: Final = go_json.names_of(_UserInfo)


def annotations_of(thing: Json) -> dict[str, str]:
    return (thing.get("metadata") or {}).get("annotations") or {}


def filled_in(thing: Json, before: Json | None, caller: Caller, policy: WebhookPolicy) -> str | None:
    """The annotation that a pod or a template has to get; None: it stays. `before`: what an update changes. Raises
    Denied."""
    given = annotations_of(thing).get(names.USER_INFO)
    former = annotations_of(before).get(names.USER_INFO) if before is not None else None
    own = json.dumps({"user": caller.user, "groups": list(caller.groups)}, separators=(",", ":"))
    if given is not None and given not in (former, own):
        if not policy.may_name_users(caller):
            raise Denied(f"{caller.user} may not set the annotation {names.USER_INFO}")
        _check(given)
        return None
    if given is None and former is not None:
        return former
    if given is None and before is None:
        return own
    return None


def _check(text: str) -> None:
    try:
        info = go_json.decode(text, _UserInfo, _USER_INFO)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Denied(f"{names.USER_INFO}: expected JSON with user and groups ({error})") from None
    if not info.user:
        raise Denied(f"{names.USER_INFO}: expected a user")


def template_of(workload: Json) -> tuple[str, Json]:
    """The path and the value of the pod template of a workload."""
    way = TEMPLATES[workload["kind"]]
    at = workload
    for part in way:
        at = at.get(part) or {}
    return "/" + "/".join(way), at
