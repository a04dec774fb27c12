"""Quotas in annotations of namespaces: they become tags of applications, and a change of a quota is in force at once.
Pure."""

from __future__ import annotations

import json
from typing import Final

from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.shim import messages, names, pod_reading
from remuda_kubernetes.shim.cache import ApplicationEntry, Cache
from remuda_kubernetes.shim.effects import RecordEvent, Submit, Withdraw, name_of
from remuda_kubernetes.shim.quantities import amounts
from remuda_proto.bounds import shown
from remuda_proto.constants import APP_TAG_NAMESPACE_RESOURCE_GUARANTEED, APP_TAG_NAMESPACE_RESOURCE_QUOTA
from remuda_proto.si.v1 import si_pb2 as si

CARRIER: Final = ".:quota-"  # in an application ID, after its namespace


class Quotas:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._carriers: dict[str, str] = {}  # application ID -> namespace, until the scheduler has answered

    def changed(self, namespace: Namespace) -> None:
        """Note the namespace. Wrong annotations are refused: what was in force before stays so, and an event tells."""
        name, is_new = namespace.metadata.name, namespace.metadata.name not in self._cache.namespaces
        self._cache.namespaces[name] = namespace
        tags, wrong = read_tags(namespace)
        for one in wrong.values():
            self._reject(namespace, one)
        before = self._cache.quota_tags.get(name, {})
        after = {**{tag: value for tag, value in before.items() if tag in wrong}, **tags}
        self._cache.quota_tags[name] = after
        if not is_new and before != after:
            self._send(name)

    def gone(self, namespace: Namespace) -> None:
        self._cache.namespaces.pop(namespace.metadata.name, None)
        self._cache.quota_tags.pop(namespace.metadata.name, None)

    def send_all(self) -> None:
        """Quotas may have changed while no front end ran."""
        for name, tags in self._cache.quota_tags.items():
            if tags:
                self._send(name)

    def _send(self, namespace: str) -> None:
        cache = self._cache
        if not cache.is_live:
            return
        version = cache.namespaces[namespace].metadata.resource_version
        for index, like in enumerate(self._one_of_each_place(namespace)):
            name = f"{namespace}{CARRIER}{version}-{index}"
            self._carriers[name] = namespace
            cache.emit(Submit(messages.quota_carrier(cache, like, name)))
            cache.emit(Withdraw(name))

    def _one_of_each_place(self, namespace: str) -> list[ApplicationEntry]:
        """Applications of one queue and one user are placed in one queue."""
        found: dict[tuple[object, ...], ApplicationEntry] = {}
        for entry in self._cache.applications.values():
            if entry.namespace == namespace and entry.is_submitted and entry.pods:
                originator = self._cache.pods[entry.originator].pod
                found.setdefault((entry.queue, *pod_reading.user_of(originator)), entry)
        return list(found.values())

    def answered(self, response: si.ApplicationResponse) -> None:
        for accepted in response.accepted:
            self._carriers.pop(accepted.applicationID, None)
        for rejected in response.rejected:
            namespace = self._cache.namespaces.get(self._carriers.pop(rejected.applicationID, ""))
            if namespace is not None:
                self._reject(namespace, rejected.reason)

    def _reject(self, namespace: Namespace, why: str) -> None:
        self._cache.emit(
            RecordEvent("Namespace", name_of(namespace.metadata), "InvalidQuota", "Scheduling", why, is_warning=True)
        )


def is_carrier(application_id: str) -> bool:
    return CARRIER in application_id


def tags_of(namespace: Namespace) -> tuple[dict[str, str], list[str]]:
    """The tags, and what is wrong with annotations. Wrong ones make no tag."""
    tags, wrong = read_tags(namespace)
    return tags, list(wrong.values())


def read_tags(namespace: Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The tags; and what is wrong with annotations, by the tag that each would make."""
    tags: dict[str, str] = {}
    wrong: dict[str, str] = {}
    metadata = namespace.metadata
    quota, quota_key = metadata.annotation(names.NAMESPACE_QUOTA), names.NAMESPACE_QUOTA
    if not quota:
        quota_key = names.NAMESPACE_MAX
        cpu, memory = metadata.annotation(names.NAMESPACE_MAX_CPU), metadata.annotation(names.NAMESPACE_MAX_MEMORY)
        former = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
        quota = json.dumps(former) if former else ""
    for key, text, tag in (
        (quota_key, quota, APP_TAG_NAMESPACE_RESOURCE_QUOTA),
        (
            names.NAMESPACE_GUARANTEED,
            metadata.annotation(names.NAMESPACE_GUARANTEED),
            APP_TAG_NAMESPACE_RESOURCE_GUARANTEED,
        ),
    ):
        if text:
            try:
                tags[tag] = _resource(text)
            except ValueError as error:
                wrong[tag] = f"{key}: {error}"
    most = metadata.annotation(names.NAMESPACE_MAX_APPS)
    if most.isascii() and most.isdigit():
        tags[names.TAG_MAX_APPS] = most
    elif most:
        wrong[names.TAG_MAX_APPS] = f"{names.NAMESPACE_MAX_APPS}={most!r}: expected a whole number from 0"
    parent = metadata.annotation(names.PARENT_QUEUE)
    if parent:
        tags[names.TAG_PARENT_QUEUE] = parent
    return tags, wrong


def _resource(text: str) -> str:
    """Kubernetes quantities as JSON of a Resource. Raises ValueError."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{shown(text)}: expected JSON ({error})") from None
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{shown(text)}: expected an object of quantities")
    found = amounts({str(name): str(value) for name, value in given.items()})
    low = [name for name, value in found.items() if value <= 0]
    if low:
        raise ValueError(f"{low[0]}={given.get(low[0], found[low[0]])}: expected more than 0")
    return json.dumps({"resources": {name: {"value": value} for name, value in found.items()}})
