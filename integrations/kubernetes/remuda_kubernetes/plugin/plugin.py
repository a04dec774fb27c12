"""The shim in plugin mode: where the shim would bind a pod, the pod is approved for the default scheduler. Pure.

An approval is *pending* until the default scheduler has been given the node, and *in progress* from then on (002). It
ends when the pod is bound. Whether a pod that is bound elsewhere moves its booking is the shim's rule, as for any pod
that another process binds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Claim, Namespace, Pod
from remuda_kubernetes.shim import names, pod_reading, topology
from remuda_kubernetes.shim.cache import PodEntry, ShimPolicy
from remuda_kubernetes.shim.effects import Bind, CreatePlaceholder, Effect, PodName, RecordEvent, SetCondition
from remuda_kubernetes.shim.resume import KeptState
from remuda_kubernetes.shim.shim import Shim

WAITING = "waiting for remuda"
SCHEDULER_ERROR = "SchedulerError"  # reason of a pod's condition


@dataclass(slots=True)
class Approval:
    """An approval of a pod for a node. `since`: the time of the approval, in sweeps. `is_in_progress`: the default
    scheduler has been given the node. `is_overdue`: reported. `is_misfit`: the pod did not fit on the node when the
    default scheduler asked."""

    node: str
    since: int
    is_in_progress: bool = False
    is_overdue: bool = False
    is_misfit: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a filter request: the nodes on which the pod may run, and why on no others."""

    nodes: Sequence[str]
    reason: str = ""


class PluginShim(Shim):
    def __init__(self, policy: PluginPolicy) -> None:
        super().__init__(policy)
        self._plugin = policy
        self._approvals: dict[str, Approval] = {}  # by UID
        self._calls: list[PluginCall] = []  # to be done
        self._taken: dict[str, Sequence[Claim]] = {}  # UID -> late claims that volumes on its node count as taken for
        self._unexplained: dict[str, str] = {}  # UID -> node on which the pod was not bound, for no known reason yet

    @property
    def is_asked(self) -> bool:
        """Whether the default scheduler asks as an extender's client."""
        return self._plugin.hold is Hold.EXTENDER

    def _holds(self, pod: Pod) -> bool:
        """Whether the plugin holds the pod, by its labels when it was seen first: they may change, but then the pod
        is asked for already, or not."""
        entry = self.cache.pods.get(pod.uid)
        if entry is None:
            return self._plugin.holds(pod)
        return bool(entry.application) and pod.spec.scheduler_name in self._plugin.placed_by

    def take(self) -> list[Effect | PluginCall]:  # type: ignore[override]
        effects: list[Effect | PluginCall] = [one for effect in super().take() for one in self._instead_of(effect)]
        calls, self._calls = self._calls, []
        return effects + calls

    def _instead_of(self, effect: Effect) -> list[Effect | PluginCall]:
        match effect:
            case Bind(pod, node):
                entry = self.cache.pods.get(pod.uid)
                if entry is not None and self._holds(entry.pod):
                    return self._approve(entry, node)
            case SetCondition(pod, reason, message) if self._plugin.hold is Hold.EXTENDER:
                entry = self.cache.pods.get(pod.uid)
                if entry is not None and self._holds(entry.pod):
                    # The default scheduler writes PodScheduled, with the reason that its extender gives.
                    return [Withhold(pod, reason, message)]
            case CreatePlaceholder(_, manifest) if self._plugin.hold is Hold.GATES:
                if manifest["spec"]["schedulerName"] in self._plugin.placed_by:
                    manifest["spec"]["schedulingGates"] = [{"name": names.GATE}]
        return [effect]

    def begin(self, entry: PodEntry, node: str) -> None:
        """Late claims are the default scheduler's, for the pods that it places. The approval follows in `take`."""
        if not self._holds(entry.pod):
            super().begin(entry, node)
            return
        self._end_approval(entry.pod.uid)
        self._taken[entry.pod.uid] = self._take_volumes(entry.pod, node)
        self.cache.emit(Bind(entry.name, node))

    def _approve(self, entry: PodEntry, node: str) -> list[Effect | PluginCall]:
        pod = entry.pod
        self._approvals[pod.uid] = Approval(node, self.cache.sweeps)
        self._unexplained.pop(pod.uid, None)
        note = f"{pod.key} may run on node {node}"
        event = RecordEvent("Pod", entry.name, "QuotaApproved", "Scheduling", note)
        if self._plugin.hold is Hold.EXTENDER:
            return [Approve(entry.name, node), event]
        if not is_gated(pod):
            return [event]  # created without the admission webhook: the default scheduler has it already
        pin = self._plugin.pin_of(self.cache.namespaces.get(pod.metadata.namespace))
        return [OpenGate(entry.name, node, pin, pod, self._nominates(pod)), event]

    def _nominates(self, pod: Pod) -> bool:
        """Whether a soft pin has to be a nomination, which is a call more: the default scheduler might not look at a
        node that is preferred only, or might like another one better. A member of a gang, and a pod with a wish about
        the topology, were placed for their neighbors."""
        is_among_others = pod_reading.is_placeholder(pod) or bool(pod_reading.task_group_of(pod))
        is_topological = self._plugin.topology and bool(topology.tags_of(pod, ""))
        return is_among_others or is_topological or len(self.cache.nodes) >= limits.ALL_NODES_SCORED_BELOW

    def _take_volumes(self, pod: Pod, node: str) -> Sequence[Claim]:
        """The default scheduler is about to choose them. Pods that are approved meanwhile get others."""
        storage, on = self.cache.storage, self.cache.nodes.get(node)
        if on is None or not self._plugin.predicates:
            return ()
        plan = storage.plan(pod, on.node, jointly=False)
        claims = [claim for claim in (*(one for _, one in plan.given), *plan.made) if not storage.is_assumed(claim)]
        storage.assume(plan, on.node)
        return claims

    def _end_approval(self, uid: str) -> None:
        self._approvals.pop(uid, None)
        claims = self._taken.pop(uid, ())
        if claims:
            self.cache.storage.drop(claims)
            self.cache.is_room_changed = True

    # Reports of the API server

    def report(self) -> None:
        self._end_approvals()
        super().report()

        self._wake_others()

    def _end_approvals(self) -> None:
        for uid in {**self._approvals, **self._taken}:
            self._end_approval(uid)

    def resume(self, state: KeptState) -> None:
        self._end_approvals()
        super().resume(state)
        self._wake_others()

    def _wake_others(self) -> None:
        """Pods that are not held have failed too while nobody answered the default scheduler."""
        for entry in self.cache.pods.values() if self.is_asked else ():
            if not entry.application and not entry.node and entry.pod.spec.scheduler_name in self._plugin.placed_by:
                self._calls.append(Approve(entry.name, ""))

    def pod_changed(self, pod: Pod) -> None:
        entry, failure = self.cache.pods.get(pod.uid), _failure(pod)
        is_new = bool(failure) and (entry is None or _failure(entry.pod) != failure)
        super().pod_changed(pod)
        self._forget_if_over(pod.uid)
        if is_new:
            self._failed(pod.uid, failure)

    def pod_gone(self, pod: Pod) -> None:
        super().pod_gone(pod)
        self._forget_if_over(pod.uid)

    def _forget_if_over(self, uid: str) -> None:
        """PostBind of 002, and the end of a pod."""
        entry = self.cache.pods.get(uid)
        if entry is None:
            self._end_approval(uid)
        elif entry.is_bound:
            self._approvals.pop(uid, None)
            self._taken.pop(uid, None)  # the volumes are taken until the claims are reported as bound
        else:
            return
        self._unexplained.pop(uid, None)

    def _failed(self, uid: str, failure: str) -> None:
        """The default scheduler has written why it did not bind a pod. It may ask about the pod before that, or not
        for a minute."""
        entry, approval = self.cache.pods.get(uid), self._approval_of(uid)
        if entry is None:
            return
        if approval is not None and approval.is_in_progress:
            self._withdraw(entry, f"was not bound to node {approval.node}: {failure}")
            return
        node = self._unexplained.pop(uid, "")
        if node in entry.unfit:
            until, reason = entry.unfit[node]
            entry.unfit = {**entry.unfit, node: (until, f"{reason}: {failure}")}
            self.cache.refused[uid] = None  # asked for again, so that the scheduler learns the reason
            self.cache.is_room_changed = True

    def bound(self, uid: str, node: str) -> None:
        entry = self.cache.pods.get(uid)
        if entry is None or not self._holds(entry.pod):
            super().bound(uid, node)

    # Questions of the default scheduler

    def filter(self, pod: Pod, nodes: Sequence[str]) -> Verdict:
        """PreFilter and Filter of 002. A pod without an application may run everywhere. A pod that is seen again after
        it was given its node goes back to the scheduler: it was not bound, for whatever reason."""
        if not self._holds(pod):
            return Verdict(nodes)
        entry, approval = self.cache.pods.get(pod.uid), self._approval_of(pod.uid)
        if entry is None or approval is None:
            return Verdict((), (entry.condition[1] if entry is not None else "") or WAITING)
        if approval.is_in_progress:
            failure = _failure(entry.pod) or _failure(pod)
            if not failure:
                self._unexplained[pod.uid] = approval.node
            return self._refused(entry, f"was not bound to node {approval.node}{': ' if failure else ''}{failure}")
        if approval.node not in nodes:
            why = f"does not fit on node {approval.node}"
            if self.cache.sweeps - approval.since >= limits.MISFIT_SWEEPS:
                return self._refused(entry, why)
            # Pods that were approved before it may not be bound yet, and a pod that was there may not be gone.
            approval.is_misfit = True
            return Verdict((), f"{pod.key} {why} yet")
        approval.is_in_progress = True
        return Verdict((approval.node,))

    def _approval_of(self, uid: str) -> Approval | None:
        """None: the pod is not allowed to run, or not any more."""
        approval, entry = self._approvals.get(uid), self.cache.pods.get(uid)
        if approval is None or entry is None or not entry.uuid or entry.release is not None:
            return None
        return approval if entry.node == approval.node else None

    def _refused(self, entry: PodEntry, why: str) -> Verdict:
        """RejectTask of 002. For some time, the pod is not placed on that node again."""
        uid = entry.pod.uid
        node = self._approvals[uid].node
        self._end_approval(uid)
        reason = f"the default scheduler: {entry.pod.key} {why}"
        self.questions.keep_off(entry, node, reason)
        self.cache.record(entry, "TaskRejected", reason, warn=True)
        self._send_back(entry, reason)
        return Verdict((), reason)

    def _withdraw(self, entry: PodEntry, why: str) -> None:
        """RejectTask before the default scheduler asks again."""
        verdict = self._refused(entry, why)
        self._calls.append(Withhold(entry.name, "TaskRejected", verdict.reason))

    def may_preempt(self, pod: Pod) -> bool:
        """Whether the default scheduler may preempt for the pod. For a pod with an application the scheduler does."""
        return not self._holds(pod)

    # Time

    def sweep(self) -> None:
        for uid in list(self._approvals):
            self._check_progress(uid)
        super().sweep()

    def _check_progress(self, uid: str) -> None:
        approval, entry = self._approval_of(uid), self.cache.pods.get(uid)
        if approval is None or entry is None:
            self._end_approval(uid)
            return
        age = self.cache.sweeps - approval.since
        has_node = approval.is_in_progress or self._plugin.hold is Hold.GATES
        is_in_time = age < self.cache.policy.volume_sweeps
        if has_node and is_in_time and self.cache.storage.has_begun(entry.pod, approval.node):
            return  # the default scheduler waits for the volumes of the pod
        if self._plugin.hold is Hold.EXTENDER:
            self._check_extended(entry, approval, age)
        elif age >= limits.APPROVAL_SWEEPS and not approval.is_overdue and not is_gated(entry.pod):
            # A gate cannot come back. The pod keeps its quota, and the default scheduler tries on.
            approval.is_overdue = True
            note = f"{entry.pod.key} may run on node {approval.node}, but is not bound: {_condition(entry.pod)}"
            self.cache.record(entry, "PlacementOverdue", note, warn=True)

    def _check_extended(self, entry: PodEntry, approval: Approval, age: int) -> None:
        if age >= limits.APPROVAL_SWEEPS:
            # Not asked about: no node has passed the filters of the default scheduler.
            self._withdraw(entry, f"is not bound to node {approval.node}: {_condition(entry.pod)}")
        elif approval.is_misfit or (age and not age % limits.APPROVAL_REPEAT_SWEEPS and not approval.is_in_progress):
            approval.is_misfit = False
            self._calls.append(Approve(entry.name, approval.node))


def _failure(pod: Pod) -> str:
    """Why the default scheduler could not bind a pod that it has placed; empty: it does not say so."""
    return next((one.message for one in pod.status.conditions if one.reason == SCHEDULER_ERROR), "")


def _condition(pod: Pod) -> str:
    """The default scheduler's message about a pod that waits."""
    waiting = (one.message for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    return next(waiting, "") or "no reason given"


class Hold(StrEnum):
    """The means that keeps the default scheduler from placing a pod before it is approved."""

    GATES = "gates"
    EXTENDER = "extender"


class Pin(StrEnum):
    """How the node of an approved pod is given to the default scheduler. HARD: as required node affinity. SOFT: as
    preferred or as nominated node, so that another node is taken when that one has become unfit. FREE: not at all."""

    HARD = "hard"
    SOFT = "soft"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPolicy(ShimPolicy):
    """The settings of plugin mode. `placed_by`: names of the schedulers that place managed pods. Those of
    `scheduler_names` are bound as in shim mode. `pin`: where the namespace of a pod has no annotation."""

    placed_by: frozenset[str]
    hold: Hold
    pin: Pin = Pin.HARD

    def manages(self, pod: Pod) -> bool:
        return ShimPolicy.manages(self, pod) or self.holds(pod)

    def holds(self, pod: Pod) -> bool:
        """Whether another scheduler places the pod, after its approval: it has an application, and does not ask to be
        left alone (002, PreFilter). A pod with the gate of this front end is held in any case: nobody else removes it.
        """
        if pod.spec.scheduler_name not in self.placed_by:
            return False
        if is_gated(pod):
            return True
        is_ignored = pod.metadata.annotation(names.IGNORE_APPLICATION) == pod_reading.TRUE
        return not is_ignored and pod_reading.names_application(pod)

    def leaves_devices(self, pod: Pod) -> bool:
        return self.holds(pod)

    def leaves_volumes(self, pod: Pod) -> bool:
        return self.holds(pod)

    def problem_of(self, pod: Pod) -> str:
        return "" if self.holds(pod) else ShimPolicy.problem_of(self, pod)

    def gates_of(self, pod: Pod) -> list[str]:
        return [name for name in ShimPolicy.gates_of(self, pod) if name != names.GATE]

    def pin_of(self, namespace: Namespace | None) -> Pin:
        """Another value of the annotation counts as absent."""
        said = namespace.metadata.annotation(names.PIN) if namespace is not None else ""
        return Pin(said) if said in tuple(Pin) else self.pin


def is_gated(pod: Pod) -> bool:
    """Whether the pod has the gate of this front end."""
    return any(gate.name == names.GATE for gate in pod.spec.scheduling_gates)


def hold_of(chosen: str, version: Mapping[str, str]) -> Hold:
    """The Hold that the settings ask for. `chosen`: gates, extender, or auto: by the version of the API server, as its
    page `/version` reports it."""
    if chosen == "auto":
        return Hold.GATES if minor_of(version) >= limits.GATES_SINCE else Hold.EXTENDER
    return Hold(chosen)


def pin_of(chosen: str, version: Mapping[str, str]) -> Pin:
    """The pin that the settings ask for. `chosen`: hard, soft, free, or auto: the most forgiving one that the API
    server knows and that keeps nodes."""
    if chosen == "auto":
        return Pin.SOFT if minor_of(version) >= limits.NOMINATIONS_SINCE else Pin.HARD
    return Pin(chosen)


def minor_of(version: Mapping[str, str]) -> int:
    """The minor version of Kubernetes 1, by the page `/version`; 0 if it gives none. Vendors append a plus sign."""
    digits = version.get("minor", "").rstrip("+")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


Operation = dict[str, Any]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def gate_patch(pod: Pod, node: str, pin: Pin, *, nominates: bool = False) -> list[Operation]:
    """Removes the gate, and pins the pod to the node, unless the pin is free. `nominates`: a soft pin is a nomination,
    which is no part of this patch. Empty: the pod has no gate."""
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if names.GATE not in gates:
        return []
    at = f"/spec/schedulingGates/{gates.index(names.GATE)}"
    operations = [
        _operation("test", "/metadata/uid", pod.uid),
        _operation("test", f"{at}/name", names.GATE),
        {"op": "remove", "path": at},
    ]
    if pin is Pin.HARD or (pin is Pin.SOFT and not nominates):
        operations[1:1] = _affinity(pod, node, is_required=pin is Pin.HARD)
    return operations


def _affinity(pod: Pod, node: str, *, is_required: bool) -> list[Operation]:
    """Required: one term for the node, or the node in each term that the pod has, because terms are alternatives.
    Preferred: a term more, with the largest weight."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    only = {"matchFields": [field]}
    preference: dict[str, Any] = {"weight": 100, "preference": only}
    kind: str = _REQUIRED if is_required else _PREFERRED
    value: Any = {"nodeSelectorTerms": [only]} if is_required else [preference]
    affinity = pod.spec.affinity
    if affinity is None:
        return [_operation("add", "/spec/affinity", {"nodeAffinity": {kind: value}})]
    if affinity.node_affinity is None:
        return [_operation("add", "/spec/affinity/nodeAffinity", {kind: value})]
    at = f"/spec/affinity/nodeAffinity/{kind}"
    required, preferred = affinity.node_affinity.required, affinity.node_affinity.preferred
    if not is_required and preferred:
        return [_operation("add", f"{at}/-", preference)]
    if not is_required or required is None:
        return [_operation("add", at, value)]
    # The terms are those of this version of the pod: another one is read again.
    operations = [_operation("test", "/metadata/resourceVersion", pod.metadata.resource_version)]
    for number, term in enumerate(required.node_selector_terms):
        fields = f"{at}/nodeSelectorTerms/{number}/matchFields"
        if term.match_fields:
            operations.append(_operation("add", f"{fields}/-", field))
        else:
            operations.append(_operation("add", fields, [field]))
    return operations


def _operation(kind: str, path: str, value: Any) -> Operation:
    return {"op": kind, "path": path, "value": value}


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Remove the gate of a pod, so that the default scheduler places it. `as_seen`: the pod as it was reported last.
    `nominates`: if the pin is soft, the node is nominated before that."""

    pod: PodName
    node: str
    pin: Pin
    as_seen: Pod
    nominates: bool = False


@dataclass(frozen=True, slots=True)
class Approve:
    """Set the condition `remuda.io/QuotaApproved`, and make the default scheduler try the pod at once. `node`:
    empty for a pod that is not held."""

    pod: PodName
    node: str


@dataclass(frozen=True, slots=True)
class Withhold:
    """The condition `remuda.io/QuotaApproved` is false, and why."""

    pod: PodName
    reason: str
    message: str


PluginCall = OpenGate | Approve | Withhold
