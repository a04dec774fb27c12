"""Disruption budgets: how many pods of a PodDisruptionBudget preemption may take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import DisruptionBudget, LabelSelector, Pod
from remuda_kubernetes.predicates.on_node import selects
from remuda_kubernetes.shim.cache import Cache
from remuda_proto.si.v1 import si_pb2 as si

# `never`: no budget is violated. `last`: one may be where nothing else helps the pod.
Policy: TypeAlias = Literal["never", "last"]
NEVER: Final = "never"
Left: TypeAlias = dict[tuple[str, str], int]


class Budgets:
    """The budgets of the cluster, and what preemption may take of each. `empty_selects_all`: an empty selector selects
    all pods of the namespace; in policy/v1beta1 it selects none."""

    def __init__(self, cache: Cache, policy: Policy = NEVER) -> None:
        self.policy = policy
        self.empty_selects_all = True
        self._cache = cache
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}  # namespace -> name
        self._spared: dict[tuple[str, str], int] = {}  # (pod, victim): since when the victim is spared it, in sweeps
        self._granted: dict[str, int] = {}  # victims above their budget that may go: since when, in sweeps

    def changed(self, budget: DisruptionBudget) -> None:
        if not self.empty_selects_all and budget.spec.selector == LabelSelector():
            self.gone(budget)
            return
        self._budgets.setdefault(budget.metadata.namespace, {})[budget.metadata.name] = budget

    def gone(self, budget: DisruptionBudget) -> None:
        of_namespace = self._budgets.get(budget.metadata.namespace, {})
        of_namespace.pop(budget.metadata.name, None)
        if not of_namespace:
            self._budgets.pop(budget.metadata.namespace, None)

    def spared(self, uid: str, node: str, victims: Sequence[str]) -> list[str]:
        """The victims that must not go for the pod, of those that would go together: beyond what each budget allows,
        the last ones. With them all others on their nodes that must not go either, so that the scheduler finds those
        that may without asking about each. With the policy `last`, a victim goes once others have been looked for in
        its place."""
        if not self._budgets:
            return []
        left: Left = {}
        above = self._above(victims, left)
        if not above:
            return []
        entries = (self._cache.pods.get(victim) for victim in victims)
        nodes = dict.fromkeys((node, *(entry.node for entry in entries if entry is not None)))
        there = (one for name in nodes for one in self._cache.on_node(name))
        others = (one.pod.uid for one in there if one.application and one.release is None)
        spared = above + self._above((other for other in others if other not in victims), left, takes=False)
        return spared if self.policy == NEVER else self._of_last(uid, above, spared)

    def _of_last(self, uid: str, above: list[str], every: list[str]) -> list[str]:
        now, wait = self._cache.sweeps, limits.SPARED_SWEEPS
        spared = [one for one in every if now - self._spared.setdefault((uid, one), now) < wait]
        if any(one in spared for one in above):
            return spared
        self._granted |= dict.fromkeys(above, now)
        return []

    def may_be_violated_for(self, uid: str) -> bool:
        """Whether the pod may be preempted although its budget does not allow it."""
        return uid in self._granted

    def sweep(self) -> None:
        """Forget what was spared long ago."""
        since = self._cache.sweeps - limits.SPARED_KEPT_SWEEPS
        self._spared = {key: at for key, at in self._spared.items() if at > since}
        self._granted = {uid: at for uid, at in self._granted.items() if at > since}

    def _above(self, victims: Iterable[str], left: Left, *, takes: bool = True) -> list[str]:
        """The victims for which a budget has nothing left, one after the other. `left`: the disruptions that each
        budget still allows, as far as known."""
        above = []
        for uid in victims:
            entry = self._cache.pods.get(uid)
            budgets = [] if entry is None else list(self._of(entry.pod))
            for budget in budgets:
                if budget.key not in left:
                    left[budget.key] = budget.status.disruptions_allowed - self._under_way(budget)
            # The API server evicts no pod that several budgets select.
            if len(budgets) > 1 or any(left[budget.key] < 1 for budget in budgets):
                above.append(uid)
                continue
            for budget in budgets if takes else ():
                left[budget.key] -= 1
        return above

    def _of(self, pod: Pod) -> Iterator[DisruptionBudget]:
        for budget in self._budgets.get(pod.metadata.namespace, {}).values():
            if budget.spec.selector is not None and selects(budget.spec.selector, pod.metadata.labels or {}):
                yield budget

    def _under_way(self, budget: DisruptionBudget) -> int:
        """Pods of the budget whose eviction was decided, and that the API server has not counted yet."""
        return sum(
            1
            for uid in self._cache.leaving
            if (entry := self._cache.pods.get(uid)) is not None
            and entry.release is not None
            and entry.release.terminationType == si.PREEMPTED_BY_SCHEDULER
            and entry.pod.metadata.deletion_timestamp is None
            and budget in self._of(entry.pod)
        )
