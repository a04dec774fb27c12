"""Continues with the state that the scheduler has kept: only what differs from the cluster is sent. Pure.

A binding that was decided and that the API server does not have is sent again. An allocation without a pod is released,
and a pod that the scheduler does not know is asked for, or reported where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from remuda_kubernetes.predicates.predicates import attempt_of, depends_on_pods
from remuda_kubernetes.shim import messages, names
from remuda_kubernetes.shim.applications import ENDED, STARTED, Applications
from remuda_kubernetes.shim.cache import ApplicationEntry, Cache, NodeEntry
from remuda_kubernetes.shim.effects import Release, ReportNode, Withdraw
from remuda_kubernetes.shim.namespaces import is_carrier
from remuda_kubernetes.shim.quantities import Amounts
from remuda_kubernetes.shim.questions import Questions
from remuda_proto.constants import DEVICES_TAG
from remuda_proto.si.v1 import si_pb2 as si


class NodeRow(Struct):
    """A node, as the scheduler knows it."""

    id: str
    attributes: dict[str, str] = {}
    capacity: Amounts = {}
    occupied: Amounts = {}
    status: str = ""
    drained: dict[str, object] | None = None  # by an operator


class ApplicationRow(Struct):
    id: str
    state: str = ""


class AskRow(Struct):
    application: str
    key: str
    resource: Amounts = {}
    priority: int = 0
    tags: dict[str, str] = {}


class ReplacementRow(Struct):
    """The ask that replaces a placeholder. It is not among the asks."""

    key: str
    tags: dict[str, str] = {}


class AllocationRow(Struct):
    """`releasing`: the kind of the release that the scheduler waits for; 0: none. `replacement`: of a placeholder."""

    uuid: str
    application: str
    key: str
    node: str
    releasing: int = 0
    resource: Amounts = {}
    tags: dict[str, str] = {}
    devices: dict[str, str] = {}
    replacement: ReplacementRow | None = None


Row = TypeVar("Row", NodeRow, ApplicationRow, AskRow, AllocationRow)


@dataclass(slots=True)
class KeptState:
    """The state that the scheduler has of this RM, at one commit of its log or later."""

    nodes: list[NodeRow] = field(default_factory=list)
    applications: list[ApplicationRow] = field(default_factory=list)
    asks: list[AskRow] = field(default_factory=list)
    allocations: list[AllocationRow] = field(default_factory=list)


class Resumption:
    """Applies the state that the scheduler has kept (`apply()`): once, on a cache that holds the cluster and nothing of
    the scheduler."""

    def __init__(self, cache: Cache, applications: Applications, questions: Questions) -> None:
        self._cache = cache
        self._applications = applications
        self._questions = questions

    def apply(self, state: KeptState) -> list[si.AllocationResponse]:
        """Returns the decisions to carry out, as if the scheduler had just reported them."""
        self._take_applications(state.applications)
        self._take_nodes(state.nodes)
        decided = [response for row in state.allocations if (response := self._take_allocation(row)) is not None]
        known = {row.id for row in state.applications}
        for entry in self._cache.pods.values():
            if entry.is_waiting and entry.application in known:
                entry.asks = 1  # a process before this one may have: asks on their way are not listed
        replacing = {
            (row.application, row.replacement.key): row.replacement.tags
            for row in state.allocations
            if row.replacement is not None
        }
        for (application, key), tags in replacing.items():
            self._take_replacing(application, key, tags)
        allocated = {row.key for row in state.allocations}
        for row in state.asks:
            if (row.application, row.key) not in replacing:  # it may have begun after the asks were read
                self._take_ask(row, row.key in allocated)
        return decided

    def _take_applications(self, rows: list[ApplicationRow]) -> None:
        for row in rows:
            if row.state in ENDED and row.state != "Failing":
                continue
            if is_carrier(row.id):
                self._cache.emit(Withdraw(row.id))
                continue
            entry = self._cache.applications.get(row.id)
            if entry is None:  # it completes, unless a pod comes
                namespace, _, name = row.id.partition(".")
                entry = self._cache.applications[row.id] = ApplicationEntry(row.id, name, "", namespace, "")
            entry.is_submitted = entry.is_accepted = True
            entry.is_started = row.state in STARTED
            if row.state in ("Running", "Resuming", "Completing"):
                entry.is_reserving = False

    def _take_nodes(self, rows: list[NodeRow]) -> None:
        for row in rows:
            entry = self._cache.nodes.get(row.id)
            if entry is None:
                gone = si.NodeInfo(nodeID=row.id, action=si.NodeInfo.DECOMISSION)
                self._cache.emit(ReportNode(gone))
            else:
                _as_known(entry, row)
        self._cache.dirty_nodes = dict.fromkeys(self._cache.nodes)

    def _take_allocation(self, row: AllocationRow) -> si.AllocationResponse | None:
        entry = self._cache.pods.get(row.key)
        allocation = si.Allocation(
            allocationKey=row.key,
            UUID=row.uuid,
            applicationID=row.application,
            nodeID=row.node,
            resourcePerAlloc=messages.resource(row.resource),
            allocationTags={DEVICES_TAG + resource: names for resource, names in row.devices.items()},
        )
        if entry is None or entry.application != row.application or entry.uuid:
            self._cache.emit(Release(messages.release_of(allocation, "the pod has ended")))
            return None
        if entry.is_bound and entry.node != row.node:
            why = f"{entry.pod.key} was bound to {entry.node} by another process"
            self._cache.emit(Release(messages.release_of(allocation, why)))
            return None
        entry.attempts = _attempt(row.tags)
        if not row.releasing and not entry.is_bound:
            return si.AllocationResponse(new=[allocation])
        entry.book(row.uuid, row.resource, messages.devices(self._cache, allocation.allocationTags))
        self._cache.put_on(entry, row.node)
        if not row.releasing:
            return None
        release = si.AllocationRelease(
            applicationID=row.application,
            UUID=row.uuid,
            allocationKey=row.key,
            terminationType=row.releasing,  # type: ignore[arg-type]
        )
        return si.AllocationResponse(released=[release])

    def _take_replacing(self, application: str, key: str, tags: dict[str, str]) -> None:
        """A pod gets the place of a placeholder as soon as that is gone: it is asked for."""
        entry = self._cache.pods.get(key)
        if entry is None or entry.application != application or entry.is_bound:
            self._withdraw(application, key)
        elif entry.is_waiting:
            entry.is_asked = True
            entry.attempts = _attempt(tags)

    def _withdraw(self, application: str, key: str, why: str = "the pod has ended, or is allocated") -> None:
        withdrawn = si.AllocationAskRelease(
            applicationID=application, allocationKey=key, terminationType=si.STOPPED_BY_RM, message=why
        )
        self._cache.emit(Release(withdrawn))

    def _take_ask(self, row: AskRow, is_allocated: bool) -> None:
        """A pod that is allocated may have been asked for a second time meanwhile."""
        entry = self._cache.pods.get(row.key)
        if entry is None or entry.application != row.application or entry.is_bound or is_allocated:
            self._withdraw(row.application, row.key)
        elif reason := entry.problem or self._applications.device_claims.hold(entry):
            self._withdraw(row.application, row.key, reason)
        elif entry.is_waiting:
            entry.attempts = max(_attempt(row.tags), 1) - 1
            now = self._questions.ask(entry).ask
            asked_for = messages.amounts(now.resourceAsk), now.priority, dict(now.tags)
            entry.is_asked = asked_for == (row.resource, row.priority, row.tags)
            if depends_on_pods(entry.pod):
                self._cache.refused[row.key] = None  # an earlier process may have refused it for pods that have gone

    def report_bound(self) -> None:
        """Report pods that run without an allocation."""
        for entry in list(self._cache.pods.values()):
            if entry.application and entry.is_bound and not entry.uuid:
                self._applications.report_bound(entry)


def _attempt(tags: dict[str, str]) -> int:
    return attempt_of(tags.get(names.TAG_PREDICATE_CLASS, ""))


def _as_known(entry: NodeEntry, row: NodeRow) -> None:
    """The next report of the node is the difference."""
    entry.is_reported = True
    entry.capacity, entry.occupied = row.capacity, row.occupied
    entry.attributes = {name: text for name, text in row.attributes.items() if name.startswith(DEVICES_TAG)}
    entry.is_ready = row.attributes.get("ready") != "false"
    entry.selected_by = row.attributes.get(names.ATTRIBUTE_PREDICATES, "")
    # A node that an operator drains does not say whether it is cordoned, too: that is reported in any case.
    entry.is_drained = not entry.node.spec.unschedulable if row.drained else row.status == "Draining"
