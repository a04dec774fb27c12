"""The pods on nodes, in groups of pods that are alike to predicates: of one template, most of the time. Pure.

Questions about other pods go over groups and their nodes, not over all pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from remuda_kubernetes.api.objects import Pod, PodAffinityTerm
from remuda_kubernetes.predicates.selectors import NOTHING, Labels

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True)
class PodGroup:
    """Pods of one namespace with equal labels and equal anti-affinity. `nodes`: how many there are on each node.
    `is_leaving`: they are being deleted."""

    namespace: str
    labels: Labels
    anti_affinity: tuple[PodAffinityTerm, ...]
    is_leaving: bool
    nodes: Counter[str] = field(default_factory=Counter)


class PodGroups:
    def __init__(self) -> None:
        self._groups: dict[bytes, PodGroup] = {}
        self._with_anti_affinity: dict[bytes, PodGroup] = {}
        self._places: dict[str, tuple[bytes, str]] = {}  # UID -> group, node

    def put(self, pod: Pod, node: str) -> None:
        """The pod is, or will be, on the node. Empty: on none."""
        before = self._places.get(pod.uid)
        if not node:
            if before is not None:
                self._take_away(pod.uid, *before)
            return
        key = _key(pod)
        if before == (key, node):
            return
        if before is not None:
            self._take_away(pod.uid, *before)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _group(pod)
            if group.anti_affinity:
                self._with_anti_affinity[key] = group
        group.nodes[node] += 1
        self._places[pod.uid] = key, node

    def _take_away(self, uid: str, key: bytes, node: str) -> None:
        del self._places[uid]
        group = self._groups[key]
        group.nodes[node] -= 1
        if not group.nodes[node]:
            del group.nodes[node]
            if not group.nodes:
                del self._groups[key]
                self._with_anti_affinity.pop(key, None)

    def all(self, without: Collection[str] = ()) -> Iterator[PodGroup]:
        """`without`: UIDs of pods that count as gone."""
        return self._less(self._groups, without)

    def with_anti_affinity(self, without: Collection[str] = ()) -> Iterator[PodGroup]:
        return self._less(self._with_anti_affinity, without)

    def _less(self, groups: dict[bytes, PodGroup], without: Collection[str]) -> Iterator[PodGroup]:
        gone: dict[bytes, Counter[str]] = {}
        for uid in without:
            place = self._places.get(uid)
            if place is not None:
                gone.setdefault(place[0], Counter())[place[1]] += 1
        for key, group in groups.items():
            if key not in gone:
                yield group
            else:
                left = group.nodes - gone[key]
                yield PodGroup(group.namespace, group.labels, group.anti_affinity, group.is_leaving, left)


def anti_affinity_of(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    between = affinity.pod_anti_affinity if affinity is not None else None
    return () if between is None else tuple(between.required)


def _key(pod: Pod) -> bytes:
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return _ENCODER.encode((metadata.namespace, metadata.labels, anti_affinity_of(pod), is_leaving))


def _group(pod: Pod) -> PodGroup:
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return PodGroup(metadata.namespace, metadata.labels or NOTHING, anti_affinity_of(pod), is_leaving)
