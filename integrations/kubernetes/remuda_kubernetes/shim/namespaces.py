"""Annotations of namespaces: the tags of applications that set quotas of their queues. Pure."""

from __future__ import annotations

import json

from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.quantities import amounts
from remuda_proto.bounds import shown
from remuda_proto.constants import APP_TAG_NAMESPACE_RESOURCE_GUARANTEED, APP_TAG_NAMESPACE_RESOURCE_QUOTA


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
