"""The scheduler's questions about pods and nodes, and their answers. Pure.

A verdict about a class of pods holds until the node changes. Where it depends on other pods, the class is one pod, and
the answer accepts one node: until the allocation arrives, the pod counts as there for other questions. What other pods
have changed meanwhile is found when the allocation arrives, before the pod is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.predicates.predicates import Predicates, attempt_of, class_of, depends_on_pods
from remuda_kubernetes.shim import messages
from remuda_kubernetes.shim.cache import Cache, PodEntry
from remuda_kubernetes.shim.effects import Ask
from remuda_proto.remuda.v1.predicates_pb2 import NodeVerdict


class Questions:
    def __init__(self, cache: Cache, predicates: Predicates) -> None:
        self._cache = cache
        self._predicates = predicates
        self._samples: dict[str, Pod] = {}  # a pod of each class
        self._kept_off: dict[str, None] = {}  # UIDs of pods with unfit nodes, an ordered set

    def ask(self, entry: PodEntry) -> Ask:
        """The ask of a pod, with its predicate class. The verdicts about an earlier ask do not count for this one: the
        scheduler may keep them longer than that ask."""
        entry.asks += 1
        entry.attempts += 1
        name = class_of(entry.pod, entry.attempts, alone=entry.is_alone)
        if not entry.is_alone and not depends_on_pods(entry.pod):
            self._samples.pop(name, None)
            self._samples[name] = entry.pod
            if len(self._samples) > limits.PREDICATE_CLASSES:
                del self._samples[next(iter(self._samples))]
        return Ask(messages.ask(self._cache, entry, name))

    def verdicts(self, uid: str, predicate_class: str, node_ids: Iterable[str]) -> Iterator[NodeVerdict]:
        """Answers a question about the class of the pod. Raises LookupError for a class that is not known."""
        entry = self._cache.pods.get(uid)
        pod = entry.pod if entry is not None else self._samples.get(predicate_class)
        if pod is None:
            raise LookupError(f"{predicate_class}: no pod of this class is there any more")
        if entry is not None:  # an ask of an earlier process may have a later attempt
            entry.attempts = max(entry.attempts, attempt_of(predicate_class))
        is_alone = entry is not None and entry.is_alone and predicate_class.startswith(entry.pod.uid)
        if not is_alone and not depends_on_pods(pod):
            yield from self._of_class(pod, node_ids)
        elif entry is not None and entry.is_waiting:
            yield from self._of_one(entry, node_ids)

    def _of_class(self, pod: Pod, node_ids: Iterable[str]) -> Iterator[NodeVerdict]:
        of_node, among_pods = self._predicates.of_node(pod), self._predicates.among_pods(pod)
        for name in node_ids:
            on = self._cache.nodes.get(name)
            if on is None:
                yield _refused(name, "the node is gone")
            elif refusal := of_node(on):
                yield _refused(name, refusal)
            elif refusal := among_pods(on):
                yield _refused(name, refusal, limits.VERDICT_AMONG_PODS_MS)
            else:
                yield NodeVerdict(node_id=name, accepted=True)

    def _of_one(self, entry: PodEntry, node_ids: Iterable[str]) -> Iterator[NodeVerdict]:
        """Accepts the first node that suits it. The others are not looked at."""
        cache, uid = self._cache, entry.pod.uid
        of_node, among_pods = self._predicates.of_node(entry.pod), self._predicates.among_pods(entry.pod)
        for name in node_ids:
            on = cache.nodes.get(name)
            if name in entry.unfit:
                refusal = entry.unfit[name][1]
            else:
                refusal = (of_node(on) or among_pods(on)) if on is not None else "the node is gone"
            if not refusal:
                cache.granted[uid] = cache.sweeps
                cache.put_on(entry, name)
                yield NodeVerdict(node_id=name, accepted=True)
                return
            yield _refused(name, refusal, limits.VERDICT_OF_ONE_POD_MS)
        cache.refused[uid] = None

    def stale(self, entry: PodEntry, node: str) -> str:
        """Why the pod may not start any more where the scheduler has put it; empty: it may. Then the verdicts about the
        node are void."""
        if not self._cache.policy.predicates:
            return ""
        on = self._cache.nodes.get(node)
        refusal = self._predicates.refusal(entry.pod.uid, node) if on is not None else ""
        if refusal and on is not None:
            on.refusals += 1
            self._cache.dirty_nodes[node] = None
        return refusal

    def keep_off(self, entry: PodEntry, node: str, reason: str) -> None:
        """Keep the pod off the node for some time."""
        entry.unfit[node] = self._cache.sweeps + limits.UNFIT_SWEEPS, reason
        self._kept_off[entry.pod.uid] = None

    def _admit_again(self) -> None:
        cache = self._cache
        for uid in list(self._kept_off):
            entry = cache.pods.get(uid)
            if entry is None or entry.is_bound:
                del self._kept_off[uid]
                continue
            left = {node: (until, why) for node, (until, why) in entry.unfit.items() if until > cache.sweeps}
            if left != entry.unfit:
                entry.unfit = left
                cache.refused[uid] = None
                cache.is_room_changed = True
            if not left:
                del self._kept_off[uid]

    def sweep(self) -> None:
        """Called at intervals. Asks that were refused are sent again if pods have come or gone since, so that the
        scheduler asks about all nodes. Agreements without an allocation expire."""
        cache = self._cache
        self._admit_again()
        cache.sweeps += 1
        for uid, at in list(cache.granted.items()):
            entry = cache.pods.get(uid)
            if entry is None or not entry.is_waiting:
                del cache.granted[uid]
            elif cache.sweeps - at > limits.AGREEMENT_SWEEPS:
                del cache.granted[uid]
                cache.put_on(entry, "")
                cache.refused[uid] = None
        if cache.is_room_changed:
            cache.is_room_changed = False
            refused, cache.refused = cache.refused, {}
            for uid in refused:
                entry = cache.pods[uid]
                if entry.is_waiting and entry.is_asked:
                    cache.emit(self.ask(entry))


def _refused(node: str, reason: str, holds_ms: int = 0) -> NodeVerdict:
    return NodeVerdict(node_id=node, reason=reason, holds_ms=holds_ms)
