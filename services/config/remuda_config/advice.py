"""Finds what is worth knowing about a text that is valid: values without the effect that one may expect, and keys and
values that only some versions of Apache YuniKorn have.

Nothing here refuses a text; `verify` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remuda_config.problems import Finding, Path
from remuda_config.rules import properties, user_limits
from remuda_config.schema import Partition, Queue, Queues
from remuda_proto.bounds import shown

_OWN = "of remuda; Apache YuniKorn has no such key"
_OWN_VALUE = "of remuda; Apache YuniKorn has no such value"
_NEWER_NAME = re.compile(r"[:#/@]")
_VERSIONS_OF_PROPERTIES = {
    properties.QUOTA_DELAY: "of Apache YuniKorn 1.9 and later",
    properties.QUOTA_DELAY_1_8: f"of Apache YuniKorn 1.8; 1.9 and later call it {properties.QUOTA_DELAY}",
    properties.BACKOFF: "of Apache YuniKorn 1.8 and later",
    properties.BACKOFF_DELAY: "of Apache YuniKorn 1.8 and later",
}


class Advice(NamedTuple):
    """`warnings`: values without effect, or with another one than may be expected. `versions`: of which versions a key
    or value is, where not all have it."""

    warnings: list[Finding]
    versions: list[Finding]


def advise(queues: Queues) -> Advice:
    """`queues`: of a valid text."""
    warnings: list[Finding] = []
    versions: list[Finding] = []
    for place, partition in enumerate(queues.partitions):
        path: Path = ("partitions", place)
        warnings += _warn_of_partition(partition, path)
        versions += _versions_of_partition(partition, path)
        root, root_path = partition.root(path)
        for queue, here in _walk(root, root_path):
            warnings += _warn_of_queue(queue, here)
            versions += _versions_of_queue(queue, here)
    return Advice(warnings, versions)


def _walk(queue: Queue, path: Path) -> Iterator[tuple[Queue, Path]]:
    yield queue, path
    for place, child in enumerate(queue.queues):
        yield from _walk(child, (*path, "queues", place))


def _warn_of_partition(partition: Partition, path: Path) -> Iterator[Finding]:
    root, root_path = partition.root(path)
    if partition.limits and root.limits:
        problem = "without effect, since root has limits of its own; YuniKorn refuses both from 1.5 on"
        if partition.limits != root.limits:
            yield (*path, "limits"), problem
    elif partition.limits:
        yield (*path, "limits"), "root has no limits, so that these are the limits of root"
        bounds = user_limits.tightest_below(Queue.model_construct(limits=partition.limits), "root", {})
        for queue, here in _walk(root, root_path):
            yield from user_limits.check_against_ancestors(queue, here, bounds)
    if partition.statedumpfilepath:
        yield (*path, "statedumpfilepath"), "without effect: `remuda dump` prints the state"
    if kind := partition.usergroupresolver.type.lower():
        setting = f"groups.resolver: {kind}" if kind in ("os", "ldap") else "groups.resolver"
        yield (
            (*path, "usergroupresolver"),
            f"without effect: groups of users are a setting of the service processes ({setting})",
        )


def _warn_of_queue(queue: Queue, path: Path) -> Iterator[Finding]:
    for where, own in _properties_of(queue, path):
        policy = own.get(properties.SORT_POLICY)
        if policy is not None and policy.lower() == properties.STATE_AWARE:
            yield (
                (*where, properties.SORT_POLICY),
                "is fifo, as since YuniKorn 1.6, unless the RM has compatibility: yunikorn-1.4",
            )
        elif policy is not None and policy.lower() not in properties.SORT_POLICIES:
            known = ", ".join(properties.SORT_POLICIES)
            yield (*where, properties.SORT_POLICY), f"{shown(policy)} is unknown, and is fifo: expected {known}"
        for name in (properties.BACKOFF, properties.BACKOFF_DELAY):
            if name in own:
                yield (*where, name), "without effect: asks that nothing helps are passed over without a delay"
        if properties.QUOTA_DELAY in own and properties.QUOTA_DELAY_1_8 in own:
            yield (*where, properties.QUOTA_DELAY_1_8), f"without effect beside {properties.QUOTA_DELAY}"


def _properties_of(queue: Queue, path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    yield (*path, "properties"), queue.properties
    if queue.childtemplate is not None:
        yield (*path, "childtemplate", "properties"), queue.childtemplate.properties


def _versions_of_partition(partition: Partition, path: Path) -> Iterator[Finding]:
    set_here = partition.model_fields_set
    if "usergroupresolver" in set_here:
        yield (*path, "usergroupresolver"), "of Apache YuniKorn 1.8 and later"
    if "statedumpfilepath" in set_here:
        yield (*path, "statedumpfilepath"), "of Apache YuniKorn 1.0 to 1.4"
    if partition.limits:
        yield (*path, "limits"), "with effect in Apache YuniKorn 1.5 and later"
    if "quotapreemptionenabled" in partition.preemption.model_fields_set:
        yield (*path, "preemption", "quotapreemptionenabled"), "of Apache YuniKorn 1.8 and later"
    for key in ("devices", "topology", "reservations"):
        if key in set_here:
            yield (*path, key), _OWN
    for key in ("threshold", "interval"):
        if key in partition.preemption.model_fields_set:
            yield (*path, "preemption", key), _OWN
    if "pack" in partition.nodesortpolicy.model_fields_set:
        yield (*path, "nodesortpolicy", "pack"), _OWN
    if partition.nodesortpolicy.type == "fragmentation":
        yield (*path, "nodesortpolicy", "type"), _OWN_VALUE


def _versions_of_queue(queue: Queue, path: Path) -> Iterator[Finding]:
    if _NEWER_NAME.search(queue.name):
        yield (*path, "name"), f"a name with {_marks_in(queue.name)} is of Apache YuniKorn 1.6 and later"
    for where, own in _properties_of(queue, path):
        for name in own:
            if name in _VERSIONS_OF_PROPERTIES:
                yield (*where, name), _VERSIONS_OF_PROPERTIES[name]
        policy = own.get(properties.SORT_POLICY, "").lower()
        if policy == properties.STATE_AWARE:
            yield (*where, properties.SORT_POLICY), "a policy of its own in Apache YuniKorn 1.0 to 1.5"
        elif policy == properties.FAIR_USERS:
            yield (*where, properties.SORT_POLICY), _OWN_VALUE


def _marks_in(name: str) -> str:
    return " ".join(sorted(set(_NEWER_NAME.findall(name))))
