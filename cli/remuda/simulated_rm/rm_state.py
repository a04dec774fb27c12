"""The state of a simulated RM: pending asks, running allocations, counters, latencies.

Pure: requests, callbacks and the time (seconds, any clock) are arguments. A callback that contradicts the state is
recorded as a fault. A correct scheduler causes none.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from remuda_proto.si.v1 import si_pb2 as si

Amounts = Mapping[str, int]
Record = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class SentAsk:
    """An ask for one allocation."""

    key: str
    application: str
    resource: Amounts
    sent_at: float


@dataclass(frozen=True, slots=True)
class RunningAllocation:
    """A running allocation and its ask."""

    uuid: str
    node: str
    ask: SentAsk


class RmState:
    """Keys of asks must be unique over all applications. `record` gets the content of each callback, in order."""

    def __init__(self, record: Record | None = None) -> None:
        self.waiting: dict[str, SentAsk] = {}
        self.running: dict[str, RunningAllocation] = {}  # by UUID
        self.uuid_of: dict[str, str] = {}  # key -> UUID, while it runs
        self.used: Counter[str] = Counter()  # over all running allocations
        self.capacity: Counter[str] = Counter()  # of the nodes that were accepted
        self.latencies_ms = array("d")  # of each placed ask, publish to callback; waiting for room is part of it
        self.round_trips_ms = array("d")  # of each release, publish to acknowledgement: never has to wait for room
        self.asked = self.placed = self.released = self.nodes = self.applications = 0
        self.crossed = 0  # of the placed ones, those that were withdrawn at the same moment: the RM releases them
        self.rejected: Counter[str] = Counter()  # reason -> asks, applications and nodes refused
        self.rejected_asks = self.rejected_nodes = 0
        self.application_states: dict[str, str] = {}  # application -> state in the newest callback
        self.wait_reasons: deque[tuple[str, str]] = deque(maxlen=64)  # (ask, reason) of the newest callbacks
        self.faults: list[str] = []
        self._nodes: dict[str, Amounts] = {}
        self._withdrawn: dict[str, SentAsk] = {}
        self._released_at: dict[str, float] = {}
        self._first_asked_at = self._last_placed_at = 0.0
        self._record: Record = record or (lambda entry: None)

    def record_node(self, node: str, capacity: Amounts) -> None:
        self._nodes[node] = capacity

    def record_ask(self, key: str, application: str, resource: Amounts, now: float) -> None:
        self.waiting[key] = SentAsk(key, application, resource, now)
        if not self.asked:
            self._first_asked_at = now
        self.asked += 1

    def record_withdrawal(self, key: str, reason: str) -> None:
        """Withdraws a pending ask. An allocation may already be on its way: see `is_withdrawn`."""
        ask = self._withdrawn[key] = self.waiting.pop(key)
        self._record({"kind": "withdrawn", "key": key, "application": ask.application, "reason": reason})

    def record_release(self, uuid: str, now: float) -> None:
        self._released_at[uuid] = now

    def is_withdrawn(self, key: str) -> bool:
        """Returns whether the ask was withdrawn, so that an allocation must be released."""
        return key in self._withdrawn

    def handle_allocations(self, response: si.AllocationResponse, now: float) -> list[RunningAllocation]:
        """Returns the new allocations of this callback."""
        new = [running for allocation in response.new if (running := self._allocated(allocation, now))]
        for release in response.released:
            self._released(release, now)
        for refused in response.rejected:
            self._refused(refused)
        for lost in response.releasedAsks:
            self.waiting.pop(lost.allocationKey, None)
        self.faults.extend(
            f"allocation {lost.allocationKey} rejected: {lost.reason}" for lost in response.rejectedAllocations
        )
        return new

    def handle_applications(self, response: si.ApplicationResponse) -> None:
        for accepted in response.accepted:
            self.applications += 1
            self.application_states[accepted.applicationID] = "Accepted"
        for refused in response.rejected:
            self.rejected[refused.reason] += 1
            self.application_states[refused.applicationID] = "Rejected"
            self._record(
                {"kind": "application rejected", "application": refused.applicationID, "reason": refused.reason}
            )
        for updated in response.updated:
            self.application_states[updated.applicationID] = updated.state

    def handle_nodes(self, response: si.NodeResponse) -> None:
        for accepted in response.accepted:
            self.nodes += 1
            capacity = self._nodes.get(accepted.nodeID, {})
            self.capacity.update(capacity)
            self._record({"kind": "node", "node": accepted.nodeID, "capacity": dict(capacity)})
        for refused in response.rejected:
            self.rejected[refused.reason] += 1
            self.rejected_nodes += 1
            self._record({"kind": "node rejected", "node": refused.nodeID, "reason": refused.reason})

    def handle_container_state(self, update: si.UpdateContainerSchedulingStateRequest) -> None:
        self.wait_reasons.append((f"{update.applicartionID}/{update.allocationKey}", update.reason))

    @property
    def seconds(self) -> float:
        """Seconds from the first ask to the last allocation. 0 before."""
        return max(0.0, self._last_placed_at - self._first_asked_at)

    def node_names(self) -> list[str]:
        return list(self._nodes)

    def shares(self) -> dict[str, float]:
        """Returns the used part of the nodes per resource, 0 to 1."""
        return {name: self.used[name] / total for name, total in self.capacity.items() if total}

    def _allocated(self, allocation: si.Allocation, now: float) -> RunningAllocation | None:
        key = allocation.allocationKey
        ask = self.waiting.pop(key, None) or self._withdrawn.get(key)
        if ask is None or allocation.UUID in self.running:
            self.faults.append(f"allocation {allocation.UUID} of {key}, which has no pending ask")
            return None
        running = RunningAllocation(allocation.UUID, allocation.nodeID, ask)
        self.running[running.uuid] = running
        self.uuid_of[key] = running.uuid
        self.used.update(ask.resource)
        self.placed += 1
        self.crossed += key in self._withdrawn
        self._last_placed_at = now
        self.latencies_ms.append((now - ask.sent_at) * 1000)
        self._record({
            "kind": "allocated", "key": key, "application": ask.application, "node": running.node, "uuid": running.uuid,
            "resource": {name: quantity.value for name, quantity in allocation.resourcePerAlloc.resources.items()},
        })  # fmt: skip
        return running

    def _released(self, release: si.AllocationRelease, now: float) -> None:
        running = self.running.pop(release.UUID, None)
        if running is None:
            return  # acknowledged although it was not there any more
        del self.uuid_of[running.ask.key]
        self.used.subtract(running.ask.resource)
        self.released += 1
        sent_at = self._released_at.pop(release.UUID, None)
        if sent_at is not None:
            self.round_trips_ms.append((now - sent_at) * 1000)
        known = si.TerminationType.DESCRIPTOR.values_by_number.get(release.terminationType)
        kind = str(release.terminationType) if known is None else known.name
        self._record(
            {
                "kind": "released",
                "key": running.ask.key,
                "node": running.node,
                "uuid": running.uuid,
                "termination": kind,
            }
        )

    def _refused(self, refused: si.RejectedAllocationAsk) -> None:
        self.waiting.pop(refused.allocationKey, None)
        self.rejected[refused.reason] += 1
        self.rejected_asks += 1
        self._record({"kind": "rejected", "key": refused.allocationKey, "reason": refused.reason})


def percentile(values: Iterable[float], percent: float) -> float:
    """Returns the percentile by nearest rank; 0 of nothing."""
    ranked = sorted(values)
    if not ranked:
        return 0.0
    return ranked[max(0, math.ceil(percent / 100 * len(ranked)) - 1)]
