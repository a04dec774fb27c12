"""Applications: which pods belong to one, when its pods are asked for, and its gang. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import messages, names
from remuda_kubernetes.shim.cache import ApplicationEntry, Cache, PodEntry
from remuda_kubernetes.shim.device_claims import DeviceClaims
from remuda_kubernetes.shim.effects import (
    CreatePlaceholder,
    DeletePod,
    Evict,
    FailPod,
    RecordEvent,
    Release,
    ReportAllocation,
    SetCondition,
    Submit,
    name_of,
)
from remuda_kubernetes.shim.other_gangs import GroupObject
from remuda_kubernetes.shim.pod_reading import (
    Group,
    GroupKey,
    application_of,
    group_of,
    is_placeholder,
    task_group_of,
)
from remuda_kubernetes.shim.quantities import request_names
from remuda_kubernetes.shim.questions import Questions
from remuda_kubernetes.shim.task_groups import TaskGroup, placeholder_pod, placeholder_suffix, policy_of, task_groups_of
from remuda_kubernetes.shim.volumes import Volumes
from remuda_proto.si.v1 import si_pb2 as si

ENDED = frozenset({"Failing", "Failed", "Rejected", "Killed", "Completed", "Expired"})
STARTED = frozenset({"Starting", "Running"})


class Applications:
    def __init__(self, cache: Cache, questions: Questions, volumes: Volumes, device_claims: DeviceClaims) -> None:
        self._cache = cache
        self.device_claims = device_claims
        self._volumes = volumes
        self._questions = questions
        self._undeleted: dict[str, None] = {}  # UIDs, an ordered set
        self._put_off: dict[str, None] = {}  # the same
        self._awaiting: dict[str, None] = {}  # applications with `awaits`; the same
        self._to_create_again: dict[str, None] = {}  # applications; the same

    # Pods

    def join(self, entry: PodEntry) -> ApplicationEntry:
        """Add a pod to its application. Its first pod that is no placeholder is its originator."""
        pod = entry.pod
        said = application_of(pod, unique=self._cache.policy.generate_unique)
        entry.application = said.id
        application = self._cache.applications.get(said.id)
        if application is None:
            application = ApplicationEntry(said.id, said.name, said.queue, said.namespace, pod.uid)
            application.is_forced = bool(pod.spec.node_name)
            self._cache.applications[said.id] = application
            if pod.metadata.label(names.USERNAME_LABEL):
                note = f"{names.USERNAME_LABEL} has no effect: the annotation {names.USER_INFO} names the user"
                self._cache.record(entry, "LabelIgnored", note, warn=True)
        elif not application.pods:
            application.originator, application.queue = pod.uid, said.queue  # the scheduler has not completed it yet
        application.pods[pod.uid] = None
        application.unseen.discard(pod.metadata.name)
        self._choose_originator(application, entry)
        if not is_placeholder(pod):
            self._define_gang(application, entry)
        if said.ignored:
            values = ", ".join(said.ignored)
            self._cache.record(entry, "TaskRejected", f"application {said.name}; ignored: {values}", warn=True)
        return application

    def _choose_originator(self, application: ApplicationEntry, entry: PodEntry) -> None:
        """The owner of the placeholders, else the oldest pod that is none: the same one after a restart."""
        if application.is_submitted:
            return
        if entry.is_placeholder:
            application.owner = next((owner.uid for owner in entry.pod.metadata.owner_references), "")
        candidates = {application.originator, application.owner, entry.pod.uid} & application.pods.keys()
        application.originator = min(candidates, key=lambda uid: _rank(self._cache.pods[uid], application.owner))

    def _define_gang(self, application: ApplicationEntry, entry: PodEntry) -> None:
        """By the first pod that defines one, unless pods of the application run already without it."""
        if application.is_submitted or application.groups or not self._cache.policy.gangs:
            return
        group = group_of(entry.pod)
        try:
            found = task_groups_of(entry.pod) if group is None else self._groups_of_others(application, group, entry)
        except ValueError as error:
            application.problem = str(error)  # reported when it is submitted
            return
        if found is None:
            return
        application.groups = found
        application.policy = policy_of(entry.pod)
        if group is not None and not application.policy.timeout_ms:
            timeout_ms = self._cache.group_objects.timeout_ms_of(group, application.namespace)
            application.policy = replace(application.policy, timeout_ms=timeout_ms)
        application.is_reserving = bool(application.groups)

    def _groups_of_others(
        self, application: ApplicationEntry, group: Group, entry: PodEntry
    ) -> tuple[TaskGroup, ...] | None:
        """The task groups of a gang that others define; None: the object that says how large it is has not come yet.
        Raises ValueError."""
        objects = self._cache.group_objects
        self._awaiting.pop(application.id, None)
        application.awaits = None
        found = objects.task_groups(group, entry.pod)
        if found is None:
            application.awaits = group.key(application.namespace)
            self._awaiting[application.id] = None
        elif not application.queue:
            application.queue = objects.queue_of(group, application.namespace)
        return found

    def group_changed(self, kind: str, one: GroupObject) -> None:
        """An object has come, or has changed, that says how many members groups have."""
        key = self._cache.group_objects.put(kind, one)
        self._resolve(lambda awaited: awaited == key)

    def group_gone(self, kind: str, one: GroupObject) -> None:
        self._cache.group_objects.remove(kind, one)

    def groups_served(self, kind: str, *, are_served: bool) -> None:
        """Note whether the API server has objects of the kind. Without objects, no gang waits for them."""
        served = self._cache.group_objects.served
        if are_served:
            served.add(kind)
        elif kind in served:
            served.remove(kind)
            self._resolve(lambda awaited: awaited[0] == kind)

    def _resolve(self, is_known: Callable[[GroupKey], bool]) -> None:
        for name in list(self._awaiting):
            application = self._cache.applications.get(name)
            if application is None or application.awaits is None or not application.pods:
                del self._awaiting[name]
            elif is_known(application.awaits):
                self._define_gang(application, self._cache.pods[application.originator])
                self.advance(application)

    def leave(self, entry: PodEntry) -> None:
        """The pod has ended, or is gone."""
        if entry.is_bound:
            self._record_outcome(entry)
        application = self._cache.applications.get(entry.application)
        if application is None:
            return
        application.pods.pop(entry.pod.uid, None)
        if not application.pods:
            self._forget_if_over(application)
        elif application.originator == entry.pod.uid:
            left = (uid for uid in application.pods if not self._cache.pods[uid].is_placeholder)
            application.originator = next(left, next(iter(application.pods)))

    def _record_outcome(self, entry: PodEntry) -> None:
        status, pod = entry.pod.status, entry.pod.key
        if status.phase == "Succeeded":
            self._cache.record(entry, "TaskCompleted", f"{pod} has completed")
        elif status.phase == "Failed":
            reason = f": {status.reason}" if status.reason else ""
            self._cache.record(entry, "TaskFailed", f"{pod} has failed{reason}", warn=True)

    def _forget_if_over(self, application: ApplicationEntry) -> None:
        """The scheduler completes an application without pods some time later. Until then it refuses another one of the
        same name, and takes further pods."""
        if not application.pods and not application.is_submitted:
            del self._cache.applications[application.id]

    # Asks

    def pod_waits(self, entry: PodEntry) -> None:
        """A pod is to be asked for, now or when the placeholders of its gang are bound."""
        application = self._cache.applications[entry.application]
        if application.awaits is not None:
            self._waits_for_group(entry, application.awaits)
        elif application.is_reserving:
            self.advance(application)
        else:
            self.submit(application)
            self.ask(entry)

    def _waits_for_group(self, entry: PodEntry, awaited: GroupKey) -> None:
        kind, _, name = awaited
        condition = "SchedulingSkipped", f"waiting for {name} of {kind}, which says how large its gang is"
        if self._cache.is_live and entry.condition != condition:
            entry.condition = condition
            self._cache.emit(SetCondition(entry.name, *condition))
            self._cache.record(entry, "Scheduling", condition[1])

    def submit(self, application: ApplicationEntry) -> None:
        if not application.is_submitted:
            application.is_submitted = True
            application.is_accepted = application.is_started = False
            application.created.clear()  # placeholders that are gone are created again
            application.unseen.clear()
            if application.problem:
                self._record(application, "TaskGroupsError", application.problem, warn=True)
            self._cache.emit(Submit(messages.application(self._cache, application)))

    def report_bound(self, entry: PodEntry) -> None:
        """Report a pod that runs without an allocation. An unknown node is reported with its pods later."""
        self.submit(self._cache.applications[entry.application])
        known = self._cache.nodes.get(entry.node)
        if known is not None and known.is_reported:
            self._cache.book_running(entry)
            self._cache.emit(ReportAllocation(messages.allocation(self._cache, entry)))
            if entry.devices:  # they may have been reported as occupied
                self._cache.dirty_nodes[entry.node] = None

    def advance(self, application: ApplicationEntry) -> None:
        """Ask for the pods whose turn it is, and create the placeholders that are missing."""
        if not self._cache.is_live:
            return
        pods = list(self._cache.pods_of(application))
        if application.awaits is not None and not application.is_submitted:
            for one in pods:
                self._waits_for_group(one, application.awaits)
            return
        if any(one.is_waiting and not self._cache.policy.gates_of(one.pod) for one in pods):
            self.submit(application)
        if application.is_reserving and pods:
            self._reserve(application, pods)
        for entry in pods:
            if entry.is_placeholder or not application.is_reserving:
                self.ask(entry)

    def unreadable(self, entry: PodEntry) -> None:
        """The amounts of a pod cannot be read (any more): if it was asked for, it must not be placed."""
        self._cache.record(entry, "TaskRejected", entry.problem, warn=True)
        if entry.application and entry.is_waiting and entry.is_asked:
            entry.is_asked = False
            self._cache.emit(Release(messages.release(entry, entry.problem)))

    def put_off(self, entry: PodEntry) -> None:
        """The binding of the pod has failed. It is asked for again at once, and after a pause when that repeats: the
        cause, such as a change of its claim, may not have been observed yet."""
        entry.not_before = self._cache.sweeps + entry.pause_s / limits.SWEEP_EVERY_S
        entry.pause_s = limits.PUT_OFF.pause_after(entry.pause_s) or limits.PUT_OFF.first_pause_s
        self._put_off[entry.pod.uid] = None

    def _is_put_off(self, entry: PodEntry) -> bool:
        return entry.not_before > self._cache.sweeps

    def ask(self, entry: PodEntry) -> None:
        is_due = entry.is_waiting and not (entry.is_asked or self._is_put_off(entry)) and entry.release is None
        if is_due and not self._cache.policy.gates_of(entry.pod) and not self._is_held(entry):
            entry.is_asked = True
            self._cache.emit(self._questions.ask(entry))
            note = f"{entry.pod.key} is queued and waiting for allocation"
            self._cache.record(entry, "Scheduling", note)
            group = "" if entry.is_placeholder else task_group_of(entry.pod)
            if any(group == one.name for one in self._cache.applications[entry.application].groups):
                note = f"{entry.pod.key} is in task group {group}"
                self._cache.record(entry, "TaskGroupMatch", note, action="GangScheduling")

    def allocated(self, entry: PodEntry) -> None:
        self._cache.record(entry, "Scheduled", f"{entry.pod.key} is assigned to node {entry.node}")
        if entry.is_placeholder:
            note = f"a placeholder of task group {task_group_of(entry.pod)} is allocated"
            self._record(self._cache.applications[entry.application], "PlaceholderAllocated", note)

    def waits_for_gates(self, entry: PodEntry, gates: list[str]) -> None:
        condition = "SchedulingGated", f"waiting for scheduling gates: {', '.join(gates)}"
        if self._cache.is_live and entry.condition != condition:
            entry.condition = condition  # the API server says so, too
            self._cache.record(entry, "Scheduling", condition[1])

    def _is_held(self, entry: PodEntry) -> bool:
        """Whether the pod cannot run yet, wherever it is placed. A condition of the pod gives the reason."""
        policy = self._cache.policy
        reason = (
            entry.problem
            or policy.problem_of(entry.pod)
            or self._devices_of_others(entry)
            or (self._volumes.hold(entry) if policy.predicates else "")
            or self.device_claims.hold(entry)  # at last: the claims are for this pod from now on
        )
        if reason and entry.condition[1] != reason:
            entry.condition = "Unschedulable", reason
            self._cache.emit(SetCondition(entry.name, *entry.condition))
            self._cache.record(entry, "FailedScheduling", reason, warn=True)
        return bool(reason)

    def _devices_of_others(self, entry: PodEntry) -> str:
        """Why a pod waits that requests devices as an extended resource, for which this front end allocates none."""
        resources = set(self._cache.devices.resources.values())
        claimed = request_names(entry.pod) & resources if resources and not entry.is_placeholder else ()
        if claimed:
            return f"its containers request {', '.join(sorted(claimed))}, which is allocated by resourceClaims only"
        served = [] if self._cache.policy.leaves_devices(entry.pod) else self._cache.served_by_devices(entry.size)
        if not served:
            return ""
        return f"its {', '.join(served)} (dynamic resource allocation) is allocated by the default scheduler only"

    def _reserve(self, application: ApplicationEntry, pods: list[PodEntry]) -> None:
        bound: dict[str, int] = {}
        for entry in pods:
            if entry.is_bound and not entry.is_placeholder:
                application.is_reserving = False  # it has begun before a restart
                return
            if entry.is_bound:
                group = task_group_of(entry.pod)
                bound[group] = bound.get(group, 0) + 1
        if all(bound.get(group.name, 0) >= group.min_member for group in application.groups):
            application.is_reserving = False
            self._record(application, "GangReservationComplete", "all placeholders are bound")
        elif application.is_accepted:
            self._create_placeholders(application, pods)

    def _create_placeholders(self, application: ApplicationEntry, pods: list[PodEntry]) -> None:
        originator = self._cache.pods[application.originator].pod
        existing = {entry.pod.metadata.name for entry in pods}
        wanted = 0
        for group in application.groups:
            for number in range(group.min_member):
                manifest = placeholder_pod(
                    application.name,
                    application.queue,
                    group,
                    originator,
                    placeholder_suffix(originator, group, number),
                    self._cache.policy.placeholder_image,
                    self._cache.policy.placeholder_user,
                )
                name = manifest["metadata"]["name"]
                if name not in existing and name not in application.created:
                    application.created.add(name)
                    application.unseen.add(name)
                    wanted += 1
                    self._cache.emit(CreatePlaceholder(application.id, manifest))
        if wanted:
            self._record(application, "CreatingPlaceholders", f"{wanted} placeholders")

    def pods_listed(self) -> None:
        """A placeholder that was created and is in no list was deleted before any watch told of it. The scheduler waits
        for its ask, so it is created again. If its creation is still on its way, the second one finds it."""
        for application in list(self._cache.applications.values()):
            if application.unseen:
                application.created -= application.unseen
                application.unseen.clear()
                self.advance(application)

    def placeholder_left(self, application_id: str, there: Pod) -> None:
        """The name of a placeholder belongs to one of before, which has ended or is being deleted: for example, the
        application has begun again. The placeholder is created when that one is gone."""
        application = self._cache.applications.get(application_id)
        if application is None or not application.is_reserving:
            return
        application.created.discard(there.metadata.name)
        application.unseen.discard(there.metadata.name)
        self._to_create_again[application_id] = None
        if there.metadata.deletion_timestamp is None:
            self._cache.emit(DeletePod(name_of(there.metadata)))

    def placeholder_failed(self, application_id: str, reason: str) -> None:
        """A placeholder cannot be created: the application goes on without a gang."""
        application = self._cache.applications.get(application_id)
        if application is not None and application.groups:
            self._record(application, "PlaceholderCreateFailed", reason, warn=True)
            self._dissolve(application)

    def _dissolve(self, application: ApplicationEntry) -> None:
        application.is_reserving = False
        for entry in self._cache.pods_of(application):
            if entry.is_placeholder:
                self._cache.emit(DeletePod(entry.name))
        self.advance(application)

    def placeholders_timed_out(self, application_id: str) -> None:
        """The placeholders of an application have timed out. After the start of an application, in which all its
        placeholders were allocated, this is the only report about its gang. A gang with a placeholder that was never
        bound does not become complete, so the application goes on without a gang."""
        application = self._cache.applications.get(application_id)
        if application is not None and application.is_reserving and application.is_started:
            self._record(application, "GangSchedulingFailed", "the gang did not come together in time")
            application.is_reserving = False
            self.advance(application)

    def deletion_refused(self, uid: str) -> None:
        """The API server has refused the deletion of the pod, by a policy for example. The scheduler waits for the end
        of the pod."""
        self._undeleted[uid] = None

    def sweep(self) -> None:
        self._delete_again()
        self._create_again()
        for uid in list(self._put_off):
            entry = self._cache.pods.get(uid)
            if entry is not None and self._is_put_off(entry):
                continue
            del self._put_off[uid]
            if entry is not None and entry.is_waiting and not entry.is_asked and self._cache.is_live:
                self.pod_waits(entry)

    def _delete_again(self) -> None:
        """Pods whose deletion was refused, if they are still there."""
        if self._undeleted and self._cache.sweeps % limits.DELETION_SWEEPS == 0:
            undeleted, self._undeleted = self._undeleted, {}
            for uid in undeleted:
                entry = self._cache.pods.get(uid)
                if entry is not None and (entry.release is not None or entry.is_placeholder):
                    release = entry.release
                    is_preempted = release is not None and release.terminationType == si.PREEMPTED_BY_SCHEDULER
                    is_evicted = is_preempted and not entry.is_placeholder
                    self._cache.emit(Evict(entry.name) if is_evicted else DeletePod(entry.name))

    def _create_again(self) -> None:
        """Placeholders whose names belonged to others."""
        if self._to_create_again and self._cache.sweeps % limits.DELETION_SWEEPS == 0:
            again, self._to_create_again = self._to_create_again, {}
            for name in again:
                application = self._cache.applications.get(name)
                if application is not None:
                    self.advance(application)

    # Answers of the scheduler

    def answered(self, response: si.ApplicationResponse) -> None:
        for rejected in response.rejected:
            application = self._cache.applications.get(rejected.applicationID)
            if application is not None:
                self._fail(application, "ApplicationRejected", rejected.reason)
        for accepted in response.accepted:
            application = self._cache.applications.get(accepted.applicationID)
            if application is not None:
                application.is_accepted = True
                self.advance(application)
        for updated in response.updated:
            application = self._cache.applications.get(updated.applicationID)
            if application is not None:
                self._updated(application, updated.state, updated.message)

    def _updated(self, application: ApplicationEntry, state: str, message: str) -> None:
        if state == "Resuming":
            self._record(application, "GangSchedulingFailed", message or "the gang did not come together in time")
            application.is_reserving = False
            self.advance(application)
        elif state == "Completed":
            application.is_submitted = False
            self._forget_asks(application)
            self.advance(application)  # a pod may have come meanwhile
            self._forget_if_over(application)
        elif state in STARTED:
            application.is_started = True
        elif state in ENDED and application.is_submitted:
            timed_out = application.is_reserving
            reason = "ResourceReservationTimeout" if timed_out else "ApplicationFailed"
            self._fail(application, reason, message or f"the application is {state}")

    def _fail(self, application: ApplicationEntry, reason: str, message: str) -> None:
        """Waiting pods fail. A pod that comes later submits the application again."""
        application.is_submitted = False
        application.is_reserving = False
        for entry in self._cache.pods_of(application):
            if entry.is_waiting:
                entry.is_asked = True  # no other ask for it
                self._cache.emit(FailPod(entry.name, reason, message))
                self._cache.record(entry, reason, message, warn=True)
        self._forget_if_over(application)

    def _forget_asks(self, application: ApplicationEntry) -> None:
        for entry in self._cache.pods_of(application):
            if entry.is_waiting:
                entry.is_asked = False

    def ask_rejected(self, rejected: si.RejectedAllocationAsk) -> None:
        """The application may have completed just before: it is submitted again, with its ask."""
        entry = self._cache.pods.get(rejected.allocationKey)
        application = self._cache.applications.get(rejected.applicationID)
        if entry is None or application is None or not entry.is_waiting or not application.is_submitted:
            return
        if entry.resubmissions < limits.RESUBMISSIONS:
            entry.resubmissions += 1
            entry.is_asked = False
            application.is_submitted = False
            self.submit(application)
            self.ask(entry)
        else:
            self._cache.record(entry, "TaskRejected", rejected.reason, warn=True)

    def ask_withdrawn(self, released: si.AllocationAskRelease) -> None:
        """The scheduler has withdrawn an ask. A placeholder that waits is not needed any more."""
        entry = self._cache.pods.get(released.allocationKey)
        if entry is not None and entry.is_waiting and entry.is_asked and entry.is_placeholder:
            self._cache.emit(DeletePod(entry.name))
            self._cache.record(entry, "PlaceholderTimeOut", released.message or "the placeholder is not needed")

    def _record(self, application: ApplicationEntry, reason: str, note: str, *, warn: bool = False) -> None:
        """An event on the originator."""
        originator = self._cache.pods.get(application.originator)
        if originator is not None:
            text = f"application {application.id}: {note}"
            self._cache.emit(RecordEvent("Pod", originator.name, reason, "GangScheduling", text, warn))


def _rank(entry: PodEntry, owner: str) -> tuple[bool, bool, str, str]:
    """Sorts candidates for the originator. A creation time has whole seconds, so it does not tell pods of a gang apart;
    placeholders are never the originator while there is another pod."""
    metadata = entry.pod.metadata
    return entry.is_placeholder, entry.pod.uid != owner, metadata.creation_timestamp or "", metadata.name
