"""The shim: a pod of the API server is an ask or an allocation of the scheduler. Pure.

    shim.pod_changed(pod)        what a reflector reports
    shim.allocation(response)    what a callback reports
    shim.bound(uid, node)        what a call of the API has achieved
    shim.take() -> [Effect]      what is to be done, in order

Before `resume()` or `report()`, only the cache is kept. `resume()` tells the scheduler what differs from the state
that it has kept, `report()` tells it everything. After it, changes are told.
"""

from __future__ import annotations

from collections.abc import Iterable

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import DeviceClass, Namespace, Node, Pod, PriorityClass
from remuda_kubernetes.predicates.predicates import Predicates
from remuda_kubernetes.shim import messages
from remuda_kubernetes.shim.applications import Applications
from remuda_kubernetes.shim.budgets import Budgets
from remuda_kubernetes.shim.cache import Cache, PodEntry, ShimPolicy
from remuda_kubernetes.shim.device_claims import DeviceClaims
from remuda_kubernetes.shim.effects import (
    Bind,
    BindVolumes,
    DeletePod,
    Effect,
    Evict,
    Message,
    PodName,
    RecordEvent,
    Release,
    SetCondition,
    name_of,
)
from remuda_kubernetes.shim.namespaces import Quotas
from remuda_kubernetes.shim.nodes import Nodes
from remuda_kubernetes.shim.quantities import measured, request_names
from remuda_kubernetes.shim.questions import Questions
from remuda_kubernetes.shim.resume import KeptState, Resumption
from remuda_kubernetes.shim.volumes import Volumes
from remuda_operations.queries.forecasts import sentence
from remuda_operations.queries.rows import Forecast
from remuda_proto.si.v1 import si_pb2 as si

STATES = si.UpdateContainerSchedulingStateRequest
# State, as reported: reason of the condition. An autoscaler acts on Unschedulable and on no other reason.
CONDITIONS = {STATES.SKIPPED: "SchedulingSkipped", STATES.FAILED: "Unschedulable", STATES.RESERVED: "Unschedulable"}

# Changes of nodes that are events: they come and go.
NODE_EVENTS = (
    (si.EventRecord.ADD, si.EventRecord.DETAILS_NONE),
    (si.EventRecord.REMOVE, si.EventRecord.NODE_DECOMISSION),
)


class Shim:
    def __init__(self, policy: ShimPolicy) -> None:
        self.cache = Cache(policy)
        self.nodes = Nodes(self.cache)
        self.predicates = Predicates(self.cache)
        self.questions = Questions(self.cache, self.predicates)
        self.volumes = Volumes(self.cache, self.questions, self._claims_changed, self._volumes_failed)
        self.device_claims = DeviceClaims(self.cache, self._device_claims_changed)
        self.applications = Applications(self.cache, self.questions, self.volumes, self.device_claims)
        self.quotas = Quotas(self.cache)
        self.budgets = Budgets(self.cache)

    def take(self) -> list[Effect]:
        """The effects since the last call."""
        if self.cache.is_live:
            self.nodes.flush()
        effects, self.cache.effects = self.cache.effects, []
        return effects

    def report(self) -> None:
        """Tell the scheduler everything: applications, nodes with the pods that run there, asks. It knows nothing."""
        self._begin()
        for node in self.cache.nodes.values():
            node.is_reported = False
        for application in self.cache.applications.values():
            application.is_submitted = application.is_accepted = False
        self._report_rest()

    def resume(self, state: KeptState) -> None:
        """Tell the scheduler what differs from what it has kept, and carry out what it has decided. The cache has
        nothing of it yet."""
        self._begin()
        resumption = Resumption(self.cache, self.applications, self.questions)
        decided = resumption.apply(state)
        for response in decided:
            self.allocation(response)
        self._report_rest(resumption)
        failing = [row.id for row in state.applications if row.state == "Failing"]
        updated = [si.UpdatedApplication(applicationID=one, state="Failing") for one in failing]
        self.applications.answered(si.ApplicationResponse(updated=updated))
        self.quotas.send_all()

    def _begin(self) -> None:
        """From now on, changes are told. The scheduler knows nothing."""
        cache = self.cache
        cache.is_live = True
        cache.effects = [effect for effect in cache.effects if not isinstance(effect, Message | Bind)]
        cache.dirty_nodes = dict.fromkeys(cache.nodes)
        for entry in cache.pods.values():
            entry.uuid = ""
            entry.is_asked = False
            entry.release = None
            entry.written, entry.bindings = (), 0
            self.volumes.give_up(entry)
            if entry.application and not entry.is_bound:
                cache.put_on(entry, "")
        cache.applications = {name: one for name, one in cache.applications.items() if one.pods}
        for namespace in cache.namespaces.values():
            self.namespace_changed(namespace)

    def _report_rest(self, resumption: Resumption | None = None) -> None:
        """Applications and nodes that are not reported yet, and pods without an ask or an allocation."""
        applications = [one for one in self.cache.applications.values() if one.pods]
        applications.sort(key=lambda one: self._created(one.originator))
        for application in applications:
            if any(entry.is_bound for entry in self.cache.pods_of(application)):
                application.is_forced = True
                self.applications.submit(application)
        self.nodes.flush()
        if resumption is not None:
            resumption.report_bound()
        for application in applications:
            self.applications.advance(application)

    def _created(self, uid: str) -> tuple[str, str]:
        metadata = self.cache.pods[uid].pod.metadata
        return metadata.creation_timestamp or "", metadata.uid

    # Reports of the API server

    def pod_changed(self, pod: Pod) -> None:
        entry = self.cache.pods.get(pod.uid)
        is_over = pod.has_ended or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)
        if is_over:
            if entry is not None:
                self._end(entry, pod)
            return
        if entry is None:
            entry = self.cache.pods[pod.uid] = PodEntry(pod, {})
            self._measure(entry)
            if self.cache.policy.manages(pod):
                self.applications.join(entry)
                self._measure_claims(entry)
        else:
            entry.pod = pod
            self.cache.groups.put(pod, entry.node)
            self._measure(entry)
        if not entry.application:
            self.cache.put_on(entry, pod.spec.node_name)
        elif pod.spec.node_name:
            self._seen_bound(entry)
        else:
            self._seen_waiting(entry)

    def pod_gone(self, pod: Pod) -> None:
        entry = self.cache.pods.get(pod.uid)
        if entry is not None:
            self._end(entry, pod)

    def _measure(self, entry: PodEntry) -> None:
        before, problem = entry.size, entry.problem
        entry.size, entry.problem = measured(entry.pod, before)
        if self.cache.policy.leaves_devices(entry.pod):
            for name in self.cache.served_by_devices(entry.size):
                del entry.size[name]  # no node has it: the scheduler would find none
        self._measure_claims(entry)
        if entry.problem not in ("", problem):
            self.applications.unreadable(entry)
        if before and before != entry.size:
            if entry.node:
                self.cache.dirty_nodes[entry.node] = None
            entry.is_asked = False  # a known key replaces the size of an ask

    def _measure_claims(self, entry: PodEntry) -> None:
        """A pod that waits is as large as the devices that its claims still want, one that was placed as large as those
        that it has."""
        if not entry.application or not self.cache.policy.allocates_claims(entry.pod):
            return
        devices = self.cache.devices
        self.device_claims.seen(entry)
        if entry.uuid:
            found = {resource: len(some) for resource, some in entry.devices.items()}
        else:
            found = {} if entry.is_bound else devices.amounts(entry.pod)
        entry.is_kept = not entry.is_bound and devices.is_kept(entry.pod)
        entry.size = entry.size | found

    def _seen_waiting(self, entry: PodEntry) -> None:
        gates = self.cache.policy.gates_of(entry.pod)
        if gates:
            self.applications.waits_for_gates(entry, gates)
        elif not entry.is_asked and self.cache.is_live:
            self.applications.pod_waits(entry)

    def _seen_bound(self, entry: PodEntry) -> None:
        node = entry.pod.spec.node_name
        if entry.is_bound:
            return
        entry.is_bound = True
        if entry.uuid and entry.node == node:
            self._continue(entry)
            return
        if entry.uuid or entry.is_asked:
            self.cache.emit(Release(messages.release(entry, f"{entry.pod.key} was bound to {node} by another process")))
        self.cache.put_on(entry, node)
        entry.uuid = ""
        entry.is_asked = False
        entry.release = None  # it was of the allocation that is released here
        if not self.cache.is_live:
            return
        self.applications.report_bound(entry)
        self._continue(entry)

    def _continue(self, entry: PodEntry) -> None:
        """A bound placeholder may have been the last one that its gang waits for."""
        application = self.cache.applications[entry.application]
        if application.is_reserving:
            self.applications.advance(application)

    def _end(self, entry: PodEntry, pod: Pod) -> None:
        """A pod has ended or is gone: what it holds is released, once."""
        entry.pod = pod
        if entry.application:
            release: si.AllocationRelease | si.AllocationAskRelease | None = entry.release
            if release is None and (entry.uuid or entry.is_asked):
                release = messages.release(entry, "the pod has ended")
            self._leave_devices(entry)
            if release is not None:
                self.cache.emit(Release(release))
            self.device_claims.forget(entry)
            self.applications.leave(entry)
        self.cache.put_on(entry, "")
        self.cache.refused.pop(pod.uid, None)
        self.volumes.give_up(entry)
        self.volumes.forget(pod)
        self.cache.leaving.pop(pod.uid, None)
        del self.cache.pods[pod.uid]

    def _leave_devices(self, entry: PodEntry) -> None:
        """Claims have the devices until their controller has seen that the pod is gone: before the allocation is
        released, the devices are reported as occupied."""
        if entry.devices and entry.uuid:
            entry.devices = {}
            self.cache.dirty_nodes[entry.node] = None
            if self.cache.is_live:
                self.nodes.flush()

    def pods_listed(self) -> None:
        """The reflector has reported all pods."""
        self.applications.pods_listed()

    def eviction_refused(self, uid: str, reason: str) -> None:
        """A disruption budget forbids it. It is tried again while the scheduler waits, which preempts others when it
        has waited long enough; where a budget may be violated, the pod is deleted."""
        entry = self.cache.pods.get(uid)
        if entry is None or entry.release is None:
            return
        self.cache.record(entry, "PreemptionRefused", reason, warn=True)
        if self.budgets.may_be_violated_for(uid):
            self.cache.emit(DeletePod(entry.name))
        else:
            self.applications.deletion_refused(uid)

    def node_changed(self, node: Node) -> None:
        self.nodes.changed(node)

    def node_gone(self, node: Node) -> None:
        self.nodes.gone(node)

    def device_class_changed(self, device_class: DeviceClass) -> None:
        self.device_claims.class_changed(device_class)
        self._serve(device_class.metadata.name, device_class.spec.extended_resource_name)

    def device_class_gone(self, device_class: DeviceClass) -> None:
        self.device_claims.class_gone(device_class)
        self._serve(device_class.metadata.name, "")

    def _serve(self, name: str, resource: str) -> None:
        """A class serves this resource from now on; empty: none."""
        classes = self.cache.device_classes
        if classes.get(name, "") == resource:
            return
        before = classes.pop(name, "")
        if resource:
            classes[name] = resource
        for entry in self.cache.pods.values():
            if entry.is_waiting and {before, resource} & request_names(entry.pod):
                self._measure(entry)
                if not entry.is_asked and entry.application and self.cache.is_live:
                    self._seen_waiting(entry)

    def namespace_changed(self, namespace: Namespace) -> None:
        self.quotas.changed(namespace)

    def namespace_gone(self, namespace: Namespace) -> None:
        self.quotas.gone(namespace)

    def priority_class_changed(self, priority_class: PriorityClass) -> None:
        self.cache.priority_classes[priority_class.metadata.name] = priority_class

    def priority_class_gone(self, priority_class: PriorityClass) -> None:
        self.cache.priority_classes.pop(priority_class.metadata.name, None)

    # Reports of the scheduler

    def allocation(self, response: si.AllocationResponse) -> None:
        for new in response.new:
            self._allocated(new)
        for released in response.released:
            self._released(released)
        for withdrawn in response.releasedAsks:
            self.applications.ask_withdrawn(withdrawn)
        for rejected in response.rejected:
            self.applications.ask_rejected(rejected)
        for refused in response.rejectedAllocations:
            entry = self.cache.pods.get(refused.allocationKey)
            if entry is not None:
                self._report_refused(entry, refused.reason)

    def _report_refused(self, entry: PodEntry, reason: str) -> None:
        """The application of a bound pod may have completed just before: the pod is reported again, with it."""
        entry.uuid = ""
        if entry.is_bound and entry.resubmissions < limits.RESUBMISSIONS:
            entry.resubmissions += 1
            self.applications.report_bound(entry)
        else:
            self.cache.record(entry, "TaskRejected", reason, warn=True)

    def _allocated(self, new: si.Allocation) -> None:
        entry = self.cache.pods.get(new.allocationKey)
        if entry is not None and entry.uuid == new.UUID:
            return  # known, from what the scheduler has kept; the pod may be bound by now
        if entry is None or entry.is_bound or entry.uuid:
            self.cache.emit(Release(messages.release_of(new, "the pod has ended, or is bound already")))
            return
        if entry.asks > 1:  # this may answer an earlier ask; the scheduler has taken the later one for a new ask
            self.cache.emit(Release(messages.release(entry, "an earlier ask was allocated")))
        entry.book(new.UUID, messages.amounts(new.resourcePerAlloc), messages.devices(self.cache, new.allocationTags))
        self.cache.put_on(entry, new.nodeID)
        refusal = self.questions.stale(entry, new.nodeID)
        if not refusal and (problem := self.device_claims.stale(entry)):
            self.cache.record(entry, "PodClaimsFailure", problem, action="Binding", warn=True)
            self._send_back(entry, problem)
            return
        if refusal:
            self.cache.emit(Release(messages.release(entry, f"node {new.nodeID} does not suit it any more: {refusal}")))
            self._lost(entry)
            return
        self.begin(entry, new.nodeID)
        self.applications.allocated(entry)

    def _released(self, release: si.AllocationRelease) -> None:
        entry = self.cache.pods.get(release.allocationKey)
        if release.terminationType == si.STOPPED_BY_RM:
            if entry is not None and entry.uuid == release.UUID:
                self._lost(entry)
        elif entry is None or entry.uuid != release.UUID:
            self.cache.emit(Release(release))  # there is no such pod any more
        elif entry.release is None:
            entry.release = release
            self.cache.leaving[entry.pod.uid] = None
            is_preempted = release.terminationType == si.PREEMPTED_BY_SCHEDULER and not entry.is_placeholder
            self.cache.emit(Evict(entry.name) if is_preempted else DeletePod(entry.name))
            kind = si.TerminationType.Name(release.terminationType)
            self.cache.record(entry, _REASONS.get(release.terminationType, kind), release.message or kind, warn=True)
        if release.terminationType == si.TIMEOUT:
            self.applications.placeholders_timed_out(release.applicationID)

    def _lost(self, entry: PodEntry) -> None:
        """The scheduler has dropped an allocation of its own accord, with its node. A pod that was not bound yet is
        asked for again."""
        self.volumes.give_up(entry)
        if not entry.is_bound:
            self.device_claims.give_up(entry)
            self.cache.put_on(entry, "")
        entry.uuid, entry.devices = "", {}
        if not entry.is_bound:
            entry.is_asked = False
            if entry.pod.spec.resource_claims:
                self._measure(entry)
            self.applications.pod_waits(entry)

    def application(self, response: si.ApplicationResponse) -> None:
        self.applications.answered(response)
        self.quotas.answered(response)

    def node(self, response: si.NodeResponse) -> None:
        self.nodes.answered(response)

    def scheduling_state(self, update: si.UpdateContainerSchedulingStateRequest) -> None:
        """Why a pod waits, as a condition of the pod, if it has changed."""
        entry = self.cache.pods.get(update.allocationKey)
        reason = CONDITIONS.get(update.state)
        if entry is None or reason is None or not entry.is_waiting or entry.condition == (reason, update.reason):
            return
        entry.condition = (reason, update.reason)
        self.cache.emit(SetCondition(entry.name, reason, update.reason))
        self.cache.record(entry, "PodUnschedulable", update.reason, warn=True)

    def event(self, record: si.EventRecord) -> None:
        """A record of the scheduler as an event: about a pod, unless its condition says that already; and about nodes
        that come and go."""
        kind, change = record.type, (record.eventChangeType, record.eventChangeDetail)
        if kind == si.EventRecord.REQUEST:
            entry = self.cache.pods.get(record.objectID)
            said = entry.condition[1] if entry is not None else ""
            if entry is None or not record.message or (said and record.message.startswith(said)):
                return
            of, name = "Pod", entry.name
        elif kind == si.EventRecord.NODE and change in NODE_EVENTS:
            node = self.cache.nodes.get(record.objectID)
            # Kubernetes' own events on a node have its name as the UID.
            of = "Node"
            name = name_of(node.node.metadata) if node is not None else PodName("", record.objectID, record.objectID)
        else:
            return
        self.cache.emit(RecordEvent(of, name, "Informational", "Informational", record.message))

    def forecast(self, forecasts: Iterable[Forecast], now_ms: int) -> None:
        """Events tell when waiting pods will start. Where that is unknown, nothing is told."""
        for one in forecasts:
            entry = self.cache.pods.get(one.key)
            if entry is None or not entry.is_waiting or not one.median_ms:
                continue
            sweeps = self.cache.sweeps
            if entry.told_start is not None:
                told_ms, ahead_ms, at = entry.told_start
                is_as_told = limits.FORECAST_SHARE * abs(one.median_ms - told_ms) <= ahead_ms
                if is_as_told or sweeps - at < limits.FORECAST_SWEEPS:
                    continue
            entry.told_start = one.median_ms, max(0, one.median_ms - now_ms), sweeps
            self.cache.record(
                entry, "StartForecast", f"position {one.position} in {one.queue}, {sentence(one, now_ms)}"
            )

    def sweep(self) -> None:
        """Called once a second."""
        self.questions.sweep()
        self.volumes.sweep()
        self.applications.sweep()
        self.budgets.sweep()

    # Volumes

    def begin(self, entry: PodEntry, node: str) -> None:
        """Have the pod bound to the node, its late claims before."""
        if not self.cache.policy.predicates or not self.volumes.bind(entry, node):
            self._bind(entry, node)

    def _bind(self, entry: PodEntry, node: str) -> None:
        self.cache.emit(Bind(entry.name, node, self.device_claims.writes(entry)))

    def _claims_changed(self, entry: PodEntry) -> None:
        if entry.is_bound or not self.cache.is_live:
            return
        if entry.uuid and entry.volumes_since is not None and entry.release is None:
            self._continue_binding(entry)
        elif entry.is_waiting and not entry.is_asked:
            entry.not_before = 0  # this may be what kept it off
            self.applications.pod_waits(entry)

    def _continue_binding(self, entry: PodEntry) -> None:
        reason = self.volumes.lost(entry)
        if reason:
            self._volumes_failed(entry, reason)
        elif not self.volumes.bind(entry, entry.node):
            self._bind(entry, entry.node)

    def _volumes_failed(self, entry: PodEntry, reason: str) -> None:
        if entry.release is not None:
            return  # the pod is being deleted
        self.cache.record(entry, "PodVolumesBindFailure", reason, action="Binding", warn=True)
        self._send_back(entry, f"volumes: {reason}")

    def volumes_failed(self, change: BindVolumes, reason: str) -> None:
        """A volume could not be reserved, or a claim not be changed."""
        self.volumes.refused(change)
        entry = self.cache.pods.get(change.pod.uid)
        is_binding = entry is not None and entry.uuid and not entry.is_bound and entry.volumes_since is not None
        if entry is not None and is_binding and entry.node == change.node:
            self._volumes_failed(entry, reason)

    # Claims of devices

    def _device_claims_changed(self, entry: PodEntry) -> None:
        """A claim of a pod has changed, or others have given one up."""
        if entry.uuid or entry.is_bound:
            return
        before, was_asked = (entry.size, entry.is_kept), entry.is_asked
        self._measure(entry)
        if not self.cache.is_live:
            return
        if was_asked and (reason := self.cache.devices.waits_for(entry.pod)):
            self.cache.emit(Release(messages.release(entry, reason)))
            entry.is_asked = False
        if before != (entry.size, entry.is_kept):
            entry.is_asked = False
        if not entry.is_asked:
            self._seen_waiting(entry)

    # Outcomes of calls of the API

    def bound(self, uid: str, node: str) -> None:
        self.nodes.binding_succeeded(node)
        entry = self.cache.pods.get(uid)
        if entry is not None:
            self.device_claims.binding_ended(entry)
            self.cache.record(entry, "PodBindSuccessful", f"{entry.pod.key} is bound to node {node}", action="Binding")

    def binding_failed(self, uid: str, node: str, reason: str) -> None:
        entry = self.cache.pods.get(uid)
        if entry is not None:
            self.device_claims.binding_ended(entry)
        if entry is None or entry.is_bound or entry.node != node or not entry.uuid:
            if entry is not None and not entry.is_bound and not entry.uuid:
                self.device_claims.give_up(entry)
            return
        self.cache.record(entry, "PodBindFailure", reason, action="Binding", warn=True)
        self._send_back(entry, f"binding failed: {reason}")

    def binding_refused(self, node: str) -> None:
        """The API server does not accept a binding to the node. One that is not reached, or fails, says nothing about a
        node; neither does a pod that is bound already."""
        self.nodes.binding_refused(node)

    def _send_back(self, entry: PodEntry, why: str) -> None:
        """An allocated pod did not start: its allocation is released, and it is asked for again."""
        self.cache.emit(Release(messages.release(entry, why)))
        self.applications.put_off(entry)
        self._lost(entry)

    def placeholder_failed(self, application_id: str, reason: str) -> None:
        self.applications.placeholder_failed(application_id, reason)


_REASONS = {
    si.PREEMPTED_BY_SCHEDULER: "Preempted",
    si.PLACEHOLDER_REPLACED: "PlaceholderReplaced",
    si.TIMEOUT: "Timeout",
}
