"""Answers questions about a pod and nodes.

Predicates of the node alone are decided once for each shape of pods and node, until what they depend on changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.predicates import among_pods, on_node, volumes
from remuda_kubernetes.predicates.among_pods import (
    AntiAffinityOfOthers,
    Eligible,
    OwnAffinity,
    Spread,
    anti_affinity_of,
)
from remuda_kubernetes.predicates.on_node import NOTHING, Labels
from remuda_kubernetes.predicates.volumes import claim_names
from remuda_kubernetes.shim.cache import Cache, NodeEntry

Shape = bytes
Check = Callable[[NodeEntry], str]
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_ATTEMPT: Final = "/"  # in the name of a class, between the UID of its pod and the attempt
# Labels that are different for each pod of a template. Their pods are of one class all the same.
_OF_ONE_POD: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


class _OfShape:
    """`verdicts`: by node, with the version of the node's inputs. `eligible`: for spread, with that of all nodes'."""

    __slots__ = ("eligible", "eligible_at", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, tuple[int, str]] = {}
        self.eligible: list[Eligible] = []
        self.eligible_at = -1


class Predicates:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._of_shape: dict[Shape, _OfShape] = {}

    def refusal(self, uid: str, node_name: str, without: Collection[str] = ()) -> str:
        """Why the pod may not start on the node; empty: it may. `without`: UIDs of pods that count as gone."""
        entry, on = self._cache.pods.get(uid), self._cache.nodes.get(node_name)
        if entry is None:
            return "the pod is gone"
        if on is None:
            return "the node is gone"
        return self.of_node(entry.pod)(on) or self.among_pods(entry.pod, without)(on)

    def of_node(self, pod: Pod) -> Check:
        """The check of a node by itself."""
        of_shape = self._shape(pod)
        verdicts = of_shape.verdicts

        def check(on: NodeEntry) -> str:
            name = on.node.metadata.name
            known = verdicts.get(name)
            if known is None or known[0] != on.version:
                known = verdicts[name] = on.version, on_node.refusal(pod.spec, on.node)
            return known[1]

        return check

    def _shape(self, pod: Pod) -> _OfShape:
        shape = _shape_of(pod)
        found = self._of_shape.pop(shape, None)
        if found is None:
            found = _OfShape()
            while len(self._of_shape) >= limits.SHAPES:
                del self._of_shape[next(iter(self._of_shape))]
        self._of_shape[shape] = found  # the most recently used is the last
        return found

    def among_pods(self, pod: Pod, without: Collection[str] = ()) -> Check:
        """The check of a node with the pods on all nodes as they are now."""
        cache = self._cache
        gone = {*without, pod.uid}
        others = AntiAffinityOfOthers(pod, cache.groups, self._labels_of, cache.namespaces, gone)
        checks: list[Callable[[Labels], str]] = [others.refusal]
        if among_pods.affinity_of(pod) or anti_affinity_of(pod):
            checks.append(OwnAffinity(pod, cache.groups, self._labels_of, cache.namespaces, gone).refusal)
        if among_pods.hard_constraints(pod):
            checks.append(Spread(pod, cache.groups, self._eligible(pod), gone).refusal)
        has_ports, has_volumes = bool(among_pods.host_ports(pod)), _has_volumes(pod)
        has_claims = cache.policy.allocates_claims(pod)
        nowhere = self._in_use(pod, gone) or (cache.devices.waits_for(pod) if has_claims else "")
        storage, is_ours = cache.storage, not cache.policy.leaves_volumes(pod)

        def on_its_pods(on: NodeEntry) -> str:
            here = [one.pod for one in cache.on_node(on.node.metadata.name)]
            there = [one for one in here if one.uid not in gone]
            leaving = [one for one in here if one.uid in gone]
            return (
                among_pods.ports_refusal(pod, there)
                or volumes.disks_refusal(pod, there)
                or volumes.limits_refusal(pod, storage, on.node, there, leaving)
                or storage.refusal(pod, on.node, jointly=is_ours)
            )

        def check(on: NodeEntry) -> str:
            if nowhere:
                return nowhere
            if has_claims and (refusal := cache.devices.refusal(pod, on.node)):
                return refusal
            if (has_ports or has_volumes) and (refusal := on_its_pods(on)):
                return refusal
            labels = on.node.metadata.labels or NOTHING
            return _first(refusal(labels) for refusal in checks)

        return check

    def _in_use(self, pod: Pod, gone: Collection[str]) -> str:
        for namespace, name in volumes.exclusive_claims(pod, self._cache.storage):
            for uid in self._cache.users_of((namespace, name)):
                if uid not in gone:
                    return f"claim {name} is in use by {self._cache.pods[uid].pod.key}, and is for one pod"
        return ""

    def _labels_of(self, name: str) -> Labels | None:
        entry = self._cache.nodes.get(name)
        return None if entry is None else entry.node.metadata.labels or NOTHING

    def _eligible(self, pod: Pod) -> list[Eligible]:
        of_shape = self._shape(pod)
        if of_shape.eligible_at != self._cache.nodes_version:
            of_shape.eligible = among_pods.eligible_nodes(pod, (entry.node for entry in self._cache.nodes.values()))
            of_shape.eligible_at = self._cache.nodes_version
        return of_shape.eligible

    def fits_without(self, uid: str, node_name: str, victims: list[str], start: int) -> int | None:
        """The first position in `victims`, from `start`, so that the pod may start there when all up to it are gone.
        None: there is none."""
        for index in range(max(start, 0), len(victims)):
            if not self.refusal(uid, node_name, set(victims[: index + 1])):
                return index
        return None


def depends_on_pods(pod: Pod) -> bool:
    """Whether a pod that is placed changes where the next one like it may start, or the pod is not like others."""
    return bool(
        among_pods.host_ports(pod)
        or among_pods.affinity_of(pod)
        or anti_affinity_of(pod)
        or among_pods.hard_constraints(pod)
        or _has_volumes(pod)
    )


def _has_volumes(pod: Pod) -> bool:
    return volumes.has_disks(pod) or any(True for _ in claim_names(pod))


def class_of(pod: Pod, attempt: int, *, alone: bool = False) -> str:
    """The predicate class of the pod's ask: verdicts hold for all asks of a class. A pod whose verdicts change with
    each placement has a class of its own, and another one for each attempt. `alone`: so has this one."""
    if alone or depends_on_pods(pod):
        return f"{pod.uid}{_ATTEMPT}{attempt}"
    spec, metadata = pod.spec, pod.metadata
    labels = {key: value for key, value in (metadata.labels or NOTHING).items() if key not in _OF_ONE_POD}
    of_node = spec.node_selector, spec.required_nodes, spec.tolerations
    if features := on_node.features_of(spec):
        of_node = (*of_node, features)  # type: ignore[assignment]
    return blake2b(_ENCODER.encode((metadata.namespace, labels, of_node)), digest_size=16).hexdigest()


def attempt_of(predicate_class: str) -> int:
    """The attempt in the name of a class that has one pod; 0 for others."""
    attempt = predicate_class.partition(_ATTEMPT)[2]
    return int(attempt) if attempt.isdigit() else 0


def _shape_of(pod: Pod) -> Shape:
    """Pods of one shape may start on the same nodes, as far as that depends on nodes alone."""
    spec = pod.spec
    nodes = spec.node_selector, spec.required_nodes, spec.tolerations
    return _ENCODER.encode((nodes, spec.topology_spread_constraints, on_node.features_of(spec)))


def _first(refusals: Iterable[str]) -> str:
    return next((one for one in refusals if one), "")
