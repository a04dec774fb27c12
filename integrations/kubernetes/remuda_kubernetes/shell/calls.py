"""Calls of the Kubernetes API that the shim wants: bindings first, then deletions and placeholders, and what is for
people last.

A binding is idempotent: it names the UID of the pod, and a pod that is bound to the node already is a success.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import structlog

from remuda_bus import tracing
from remuda_bus.bus import Headers
from remuda_bus.metrics import exemplar_of
from remuda_bus.retry import RetryPolicy, retry
from remuda_kubernetes import limits, metrics
from remuda_kubernetes.api.client import (
    JSON_PATCH,
    MERGE_PATCH,
    ApiError,
    Away,
    Client,
    Conflict,
    NotFound,
    Rejected,
    now_text,
)
from remuda_kubernetes.api.objects import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim, Pod, Volume
from remuda_kubernetes.metrics import Places
from remuda_kubernetes.plugin.plugin import Approve, OpenGate, Pin, PluginCall, Withhold, gate_patch
from remuda_kubernetes.shell.claims import ClaimRefused, give, give_back
from remuda_kubernetes.shell.events import EventWriter
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import (
    Bind,
    BindVolumes,
    CreatePlaceholder,
    DeletePod,
    Effect,
    Evict,
    FailPod,
    GiveBack,
    PodName,
    RecordEvent,
    SetCondition,
)
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.task_groups import is_placeholder_of

log = structlog.get_logger()
T = TypeVar("T", Claim, Volume)

OnShim = Callable[[Callable[[Shim], None]], None]
Change = BindVolumes | GiveBack | DeletePod | Evict | FailPod | CreatePlaceholder
Note = SetCondition | RecordEvent | Withhold
Placement = Bind | OpenGate | Approve


class Calls:
    """Makes the calls of the API that the shim wants. `instance`: the name of this process in events. `on_shim`:
    reports the outcome of a call. `traces`: which bindings continue."""

    def __init__(self, client: Client, instance: str, on_shim: OnShim, traces: Traces, places: Places) -> None:
        self._client = client
        self._events = EventWriter(client, instance)
        self._on_shim = on_shim
        self._traces = traces
        self._places = places
        self._bindings: asyncio.Queue[tuple[Placement, float]] = asyncio.Queue()
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._notes: deque[Note] = deque(maxlen=limits.WAITING_WRITES)
        self._conditions: dict[str, SetCondition | Withhold] = {}  # of these notes, the newest of each pod, by UID
        self._noted = asyncio.Event()
        self._bound_at = float("-inf")  # time of the last binding

    def add(self, effects: Iterable[Effect | PluginCall]) -> None:
        for effect in effects:
            match effect:
                case Bind() | OpenGate() | Approve():
                    self._conditions.pop(effect.pod.uid, None)  # the pod does not wait any more
                    self._bindings.put_nowait((effect, asyncio.get_running_loop().time()))
                case BindVolumes() | GiveBack() | DeletePod() | Evict() | FailPod() | CreatePlaceholder():
                    self._changes.put_nowait(effect)
                case SetCondition() | RecordEvent() | Withhold():
                    self._add_note(effect)
                case _:
                    raise TypeError(f"{effect!r}: expected a call of the API")

    def _add_note(self, note: Note) -> None:
        if len(self._notes) == self._notes.maxlen:
            metrics.DROPPED.inc()
            self._is_due(self._notes.popleft())
        if not isinstance(note, RecordEvent):
            self._conditions[note.pod.uid] = note
        self._notes.append(note)
        self._noted.set()

    def _is_due(self, note: Note) -> bool:
        """Whether a note that has waited is to be written: a condition that is not the newest of its pod is over."""
        if isinstance(note, RecordEvent):
            return True
        if self._conditions.get(note.pod.uid) is not note:
            return False
        del self._conditions[note.pod.uid]
        return True

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(limits.BINDINGS_AT_ONCE):
                tasks.create_task(self._bind_all())
            for _ in range(limits.WRITES_AT_ONCE):
                tasks.create_task(self._change_all())
            for _ in range(limits.NOTES_AT_ONCE):
                tasks.create_task(self._note_all())

    # Bindings

    async def _bind_all(self) -> None:
        while True:
            bind, added_at = await self._bindings.get()
            now = asyncio.get_running_loop().time
            self._bound_at = now()
            pod, node = bind.pod, bind.node
            trace = self._traces.of(pod.uid)
            with tracing.span("kubernetes.bind", trace, pod=f"{pod.namespace}/{pod.name}", node=node):
                failure = await self._bind(bind)
            if failure is None:
                metrics.BINDING_SECONDS.observe(now() - added_at)
            else:
                log.warning("a pod was not bound", pod=f"{pod.namespace}/{pod.name}", node=node, reason=failure)
            self._on_shim(partial(self._report, pod.uid, node, failure))

    def _report(self, uid: str, node: str, failure: str | None, shim: Shim) -> None:
        entry = shim.cache.pods.get(uid)
        if entry is not None:
            counter = metrics.BOUND if failure is None else metrics.NOT_BOUND
            counter.labels(*self._places.of(shim.cache, entry)).inc()
        if failure is None:
            shim.bound(uid, node)
        else:
            shim.binding_failed(uid, node, failure)

    async def _bind(self, bind: Placement) -> str | None:
        """The reason of a failure. A pod that is gone is none: its reflector reports that."""
        try:
            await self._retry(lambda: self._place(bind), limits.BINDING_RETRY)
        except ClaimRefused as refused:
            return refused.reason
        except NotFound:
            return None
        except Conflict as conflict:
            # An earlier attempt, whose answer was lost, has succeeded; or the name has another pod by now.
            is_done = f'assigned to node "{bind.node}"' in conflict.reason
            return None if is_done or "precondition" in conflict.reason.lower() else conflict.reason
        except ApiError as error:
            if isinstance(bind, Bind) and isinstance(error, Rejected):
                self._on_shim(lambda shim: shim.binding_refused(bind.node))
            return str(error)
        return None

    async def _place(self, bind: Placement) -> None:
        match bind:
            case Bind(pod, node, claims):
                for write in claims:
                    await give(self._client, write, pod)
                await self._client.bind(pod.namespace, pod.name, pod.uid, node)
            case OpenGate():
                await open_gate(self._client, bind)
            case Approve():
                await approve(self._client, bind)

    async def _retry(self, call: Callable[[], object], policy: RetryPolicy) -> None:
        await retry(call, policy, on=Away)  # type: ignore[arg-type]

    # Deletions, failures and placeholders

    async def _change_all(self) -> None:
        while True:
            change = await self._changes.get()
            try:
                await self._retry(lambda change=change: self._change(change), limits.DELETION_RETRY)  # type: ignore[misc]
            except (NotFound, Conflict) as error:
                if not isinstance(change, DeletePod | Evict):  # which is done, or the name has another pod
                    self._failed(change, error.reason)
            except ApiError as error:
                log.error("the Kubernetes API has refused a change", change=type(change).__name__, error=str(error))
                self._failed(change, error.reason)

    def _failed(self, change: Change, reason: str) -> None:
        match change:
            case CreatePlaceholder(application):
                self._on_shim(lambda shim: shim.placeholder_failed(application, reason))
            case BindVolumes():
                self._on_shim(lambda shim: shim.volumes_failed(change, reason))
            case DeletePod(pod):
                self._on_shim(lambda shim: shim.applications.deletion_refused(pod.uid))
            case Evict(pod):
                self._on_shim(lambda shim: shim.eviction_refused(pod.uid, reason))

    async def _change(self, change: Change) -> None:
        match change:
            case DeletePod(pod):
                await self._client.delete_pod(pod.namespace, pod.name, pod.uid)
            case Evict(pod):
                await self._client.evict(pod.namespace, pod.name, pod.uid)
            case FailPod(pod, reason, message):
                status = {"phase": "Failed", "reason": reason, "message": message[: limits.EVENT_CHARACTERS]}
                await _patch_status(self._client, pod, status)
            case CreatePlaceholder():
                await self._create_placeholder(change)
            case BindVolumes():
                await self._bind_volumes(change)
            case GiveBack():
                await give_back(self._client, change)
                self._on_shim(lambda shim: shim.device_claims.given_back(change))

    async def _bind_volumes(self, change: BindVolumes) -> None:
        """The controller of volumes does the rest. Raises Conflict when a volume or a claim has changed since."""
        for volume, claim in change.reserved:
            await self._reserve(volume, claim)
        for claim in change.selected:
            await self._select(claim, change.node)

    async def _select(self, claim: Claim, node: str) -> None:
        of = claim.metadata
        path = f"/api/v1/namespaces/{of.namespace}/persistentvolumeclaims/{of.name}"
        metadata = {"uid": of.uid, "resourceVersion": of.resource_version, "annotations": {SELECTED_NODE: node}}

        def is_done(there: Claim) -> bool:
            return there.metadata.uid == of.uid and there.selected_node == node

        await self._write_unchanged(path, {"metadata": metadata}, Claim, is_done)

    async def _reserve(self, volume: Volume, claim: Claim) -> None:
        """A volume that a user has reserved for the claim stays so if the claim gets another one."""
        namespace, name = claim.key
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace,
                     "name": name, "uid": claim.metadata.uid}  # fmt: skip
        metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
        if volume.spec.claim_ref is None:
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        path = f"/api/v1/persistentvolumes/{volume.metadata.name}"

        def is_done(there: Volume) -> bool:
            return there.spec.claim_ref is not None and there.spec.claim_ref.uid == claim.metadata.uid

        await self._write_unchanged(path, {"metadata": metadata, "spec": {"claimRef": reference}}, Volume, is_done)

    async def _write_unchanged(
        self, path: str, body: dict[str, Any], kind: type[T], is_done: Callable[[T], bool]
    ) -> None:
        """Patch an object at the version in `body`. Raises Conflict when it has changed since, and not by this very
        write: an earlier attempt whose answer was lost, or another pod of the claim, may have done it."""
        try:
            await self._client.patch(path, body, MERGE_PATCH)
        except Conflict:
            if not is_done(await self._client.get(path, kind)):
                raise

    async def _create_placeholder(self, change: CreatePlaceholder) -> None:
        """Create it, unless an earlier attempt has. A placeholder of before that has ended, or is being deleted, does
        not stand for the new one. Raises Conflict when another pod has its name."""
        manifest = change.manifest
        path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"
        try:
            await self._client.create(path, manifest)
        except Conflict as conflict:
            try:
                there = await self._client.get(f"{path}/{manifest['metadata']['name']}", Pod)
            except NotFound as gone:  # meanwhile: try again
                raise Away(gone.reason, gone.code) from None
            if not is_placeholder_of(there, manifest):
                raise Conflict(f"{conflict.reason}, and is no placeholder of this gang", conflict.code) from None
            if there.has_ended or there.metadata.deletion_timestamp is not None:
                self._on_shim(lambda shim: shim.applications.placeholder_left(change.application, there))

    # Events and conditions

    def _is_binding(self) -> bool:
        since_last = asyncio.get_running_loop().time() - self._bound_at
        return not self._bindings.empty() or since_last < limits.NOTES_WAIT_S

    async def _note_all(self) -> None:
        """While there are bindings, notes are slow: they use the same API server."""
        while True:
            await self._noted.wait()
            if self._notes and self._is_binding():
                await asyncio.sleep(limits.NOTES_WAIT_S)
            note = self._next_note()
            if note is None:
                self._noted.clear()
                continue
            try:
                await self._retry(lambda note=note: self._note(note), limits.WRITE_RETRY)  # type: ignore[misc]
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                log.warning("an event or a condition was not written", note=type(note).__name__, error=str(error))

    def _next_note(self) -> Note | None:
        """The oldest one that is still due."""
        while self._notes:
            note = self._notes.popleft()
            if self._is_due(note):
                return note
        return None

    async def _note(self, note: Note) -> None:
        match note:
            case SetCondition(pod, reason, message):
                condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
                await _patch_status(self._client, pod, {"conditions": [condition]})
            case Withhold():
                await set_condition(self._client, note)
            case RecordEvent():
                await self._events.write(note)


async def open_gate(client: Client, call: OpenGate) -> None:
    """Raises NotFound when the pod is gone, ApiError. A pod that has no gate any more is a success."""
    path = call.pod.path
    if call.pin is Pin.SOFT and call.nominates:
        await _patch_status(client, call.pod, {"nominatedNodeName": call.node})
    pod = call.as_seen
    for attempt in range(limits.GATE_ATTEMPTS):
        operations = gate_patch(pod, call.node, call.pin, nominates=call.nominates)
        if not operations:
            return
        try:
            await client.patch(path, operations, JSON_PATCH)
            return
        except ApiError as error:
            # A test of the patch has failed: the pod has changed, or is another one.
            if error.code not in (409, 422) or attempt + 1 == limits.GATE_ATTEMPTS:
                raise
        pod = await client.get(path, Pod)
        if pod.uid != call.pod.uid:
            raise Conflict("the name has another pod by now", 409)


async def set_condition(client: Client, call: Approve | Withhold) -> None:
    """Write the condition of a pod. Raises NotFound, Conflict when the name has another pod, ApiError."""
    if isinstance(call, Approve):
        status, reason, message = "True", "Allocated", f"may run on node {call.node}" if call.node else "is not held"
    else:
        status, reason, message = "False", call.reason, call.message
    condition = {
        "type": names.APPROVED,
        "status": status,
        "reason": reason,
        "message": message[: limits.EVENT_CHARACTERS],
        "lastProbeTime": now_text("seconds"),
    }
    await _patch_status(client, call.pod, {"conditions": [condition]})


async def approve(client: Client, call: Approve) -> None:
    """The annotation makes the default scheduler try the pod at once: 1.20 does not notice a condition that only gets
    another value. Raises NotFound, Conflict, ApiError."""
    await set_condition(client, call)
    annotations = {names.APPROVED_AT: datetime.now(UTC).isoformat()}
    await client.patch(call.pod.path, {"metadata": {"uid": call.pod.uid, "annotations": annotations}})


async def _patch_status(client: Client, pod: PodName, status: Mapping[str, object]) -> None:
    await client.patch(f"{pod.path}/status", {"metadata": {"uid": pod.uid}, "status": status})


class Traces:
    """The traces of pods that wait, each from the watch event over the ask and the decision to the binding. Empty while
    traces are off."""

    def __init__(self) -> None:
        self._traces: dict[str, Headers] = {}  # by UID

    def seen(self, pod: Pod) -> None:
        """A watch event. The first one of a pod without a node begins its trace."""
        if not tracing.enabled():
            return
        if pod.spec.node_name or pod.has_ended:
            self._traces.pop(pod.uid, None)
        elif pod.uid not in self._traces:
            with tracing.span("kubernetes.watch", pod=pod.key, uid=pod.uid) as span:
                self._traces[pod.uid] = span.headers()

    def gone(self, pod: Pod) -> None:
        self._traces.pop(pod.uid, None)

    def of(self, uid: str) -> Headers | None:
        return self._traces.get(uid)

    def exported(self, uids: Iterable[str]) -> Mapping[str, Headers]:
        """The traces of the pods that are sampled, by UID."""
        return {uid: found for uid in uids if (found := self._traces.get(uid)) is not None and exemplar_of(found)}
