"""Reads the logs of an RM and of a Peloton cluster that share its nodes, and knows what has to be true of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from remuda_bus.memory import MemoryBus
from remuda_core.state import Node, Queue
from remuda_peloton.facts import Fact, PlacementQueued
from remuda_peloton.rules.lifecycle import PLACING, READY, RESERVED, UNALLOCATED
from remuda_peloton.wire.guests import key_of
from remuda_proto.guests import is_guest
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

from .auditor import Auditor
from .peloton_auditor import PelotonAuditor
from .side_by_side_world import CLUSTER, QUEUE, allocations_of, guests_of, left_by_guests
from .story import Story, Violation

NOWHERE: Final = UNALLOCATED | {READY, PLACING, RESERVED}
ABOVE_GUESTS: Final = (QUEUE, QUEUE.rpartition(".")[0])
Place = tuple[str, str, int]  # key, node and thousandths of a core
OF_ITEMS: Final = ("UpdateApplication", "UpdateAllocation")
# What was allocated before these, in the same commit, was within other limits; the RM reports what exceeds them.
LIMITING: Final = (
    "node_changed", "configuration_applied", "queue_changed", "queue_added", "partition_changed",
    "allocation_recovered",
)  # fmt: skip


class SharedPelotonAuditor(PelotonAuditor):
    """`placed`: is told of each run that is placed."""

    def __init__(self, server: MemoryBus, story: Story, placed: Callable[[Place], None]) -> None:
        super().__init__(server, story)
        self._placed = placed

    def _apply(self, fact: Fact) -> None:
        super()._apply(fact)
        if isinstance(fact, PlacementQueued):
            for task_id, run_id in fact.placement.tasks:
                self._placed(place_of(self.state.run_of(task_id, run_id)))

    def _has_room(self, name: str, runs: Any) -> None:
        """A node that has become smaller has less than its runs use; the RM's log says what was free."""

    def places(self) -> Counter[Place]:
        """Of the runs that are on a host."""
        return Counter(place_of(run) for _, run in self._runs() if run.state not in NOWHERE)


class PartitionAuditor(Auditor):
    """Of the RM. `runs`: where runs of Peloton are, in its log."""

    def __init__(
        self, server: MemoryBus, rm_id: str, story: Story, clock: Callable[[], float],
        runs: Callable[[], Counter[Place]],
    ) -> None:  # fmt: skip
        super().__init__(server, rm_id, story, clock)
        self._runs = runs
        self._held: dict[str, Place] = {}  # by UUID
        self._lost: set[Place] = set()  # allocations that ended, and not because the guest gave them back
        self.most = 0  # guests at once

    def _accept(self, seq: int, commit: log_pb2.Commit) -> None:
        for decision in commit.decisions:
            self._not_of_guests(decision)
            for fact in decision.facts:
                self._follow(fact)
        super()._accept(seq, commit)
        kept = [*(one.fact for one in guests_of(self.core)), *left_by_guests(self.core)]
        known = {one.uuid: (one.allocation_key, one.node_id, one.resource["vcore"]) for one in kept}
        if known != self._held:
            raise Violation(f"guests hold {known}, by the facts {self._held}")
        self.most = max(self.most, len(known))
        self._within_limits(commit)

    def _not_of_guests(self, decision: log_pb2.Decision) -> None:
        """A request of the RM about its items has no effect on guests."""
        if decision.request_seq and decision.command in OF_ITEMS:
            for fact in decision.facts:
                if is_of_guest(fact):
                    raise Violation(f"{decision.command} of the RM has an effect on a guest: {fact}")

    def _follow(self, fact: log_pb2.Fact) -> None:
        name = fact.WhichOneof("fact")
        if name == "allocated":
            one = fact.allocated.allocation
            if is_guest(one.applicationID):
                amount = one.resourcePerAlloc.resources["vcore"].value
                self._held[one.UUID] = (one.allocationKey, one.nodeID, amount)
        elif name == "allocation_released" and fact.allocation_released.uuid in self._held:
            gone = fact.allocation_released
            place = self._held.pop(gone.uuid)
            if gone.termination_type == si.STOPPED_BY_RM and not gone.node_removed:
                self._given_back(place)
            else:
                self._lost.add(place)
        elif name == "guest_kept":
            one = fact.guest_kept.allocation.allocation
            place = (one.allocationKey, one.nodeID, one.resourcePerAlloc.resources["vcore"].value)
            if self._held.get(one.UUID) != place:
                raise Violation(f"{place} is kept as {one.UUID}, the guest has {self._held.get(one.UUID)}")

    def _given_back(self, place: Place) -> None:
        """The allocation of a run is not given back while the run is there, unless the run has two."""
        if place in self._runs() and place not in self._held.values():
            raise Violation(f"the allocation of {place} is given back, and its run is there")
        self._lost.discard(place)

    def run_placed(self, place: Place) -> None:
        """Only where the core has allocated it, even if it is lost since."""
        if place not in self._held.values() and place not in self._lost:
            raise Violation(f"{place} is placed without an allocation; guests hold {sorted(self._held.values())}")

    def _within_limits(self, commit: log_pb2.Commit) -> None:
        """Each new allocation had room on its node and below the maxima of its queues, beside all that guests hold, be
        the node reported or not."""
        new: set[str] = set()
        for fact in (fact for decision in commit.decisions for fact in decision.facts):
            if fact.WhichOneof("fact") in LIMITING:
                new.clear()
            elif fact.HasField("allocated"):
                new.add(fact.allocated.allocation.UUID)
        for partition in self.core.state.partitions.values():
            for one in (partition.allocations[uuid] for uuid in new & partition.allocations.keys()):
                self._node_holds(one.node)
                for queue in one.application.queue.path_to_root:
                    self._queue_holds(queue)

    def _node_holds(self, node: Node) -> None:
        used = sum(
            one.fact.resource.get("vcore", 0) for one in node.allocations.values() if not is_guest(one.application.id)
        )
        used += sum(amount for _, node_id, amount in self._held.values() if node_id == node.id)
        if used > node.capacity["vcore"]:
            raise Violation(f"{node.id} has vcore {node.capacity['vcore']}, and {used} is allocated")

    def _queue_holds(self, queue: Queue) -> None:
        for name, most in queue.settings.max.items():
            used = queue.allocated.get(name, 0)
            if queue.path in ABOVE_GUESTS and name == "vcore":
                used = sum(
                    one.fact.resource.get(name, 0)
                    for one in allocations_of(self.core)
                    if queue in one.application.queue.path_to_root and not is_guest(one.application.id)
                ) + sum(amount for *_, amount in self._held.values())
            if used > most:
                raise Violation(f"{queue.path} holds {name} {used} of at most {most}")

    # At the end

    def places(self) -> Counter[Place]:
        return Counter(self._held.values())

    def guests_difference(self) -> str:
        """Between the guests' allocations and the runs, as text; "": each run has one, and each one has a run."""
        mine, runs = self.places(), self._runs()
        if mine != runs:
            return f"{sorted((mine - runs).elements())} have no run, {sorted((runs - mine).elements())} no allocation"
        asks = [
            key
            for partition in self.core.state.partitions.values()
            for application_id, one in partition.applications.items()
            for key in one.asks
            if is_guest(application_id)
        ]
        return f"asks of guests are left: {asks}" if asks else ""


def place_of(run: Any) -> Place:
    return key_of(CLUSTER, run.task.mesos_id), run.hostname, round(run.task.resource[0] * 1_000)


def is_of_guest(fact: log_pb2.Fact) -> bool:
    """Whether it says that something has happened to a guest: refusals are answers to the RM, and a message may say for
    whom something of the RM ends."""
    name = fact.WhichOneof("fact") or ""
    happened = getattr(fact, name)
    if name.endswith(("_rejected", "_ignored", "_forgotten")):
        return False
    within = [happened, *(getattr(happened, part) for part in ("ask", "allocation") if hasattr(happened, part))]
    names = ("application_id", "allocation_key", "applicationID", "allocationKey")
    return any(is_guest(str(getattr(one, field, ""))) for one in within for field in names)
