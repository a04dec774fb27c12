"""Closed demands whose asks may reserve nodes (semantics section 11).

An ask class may reserve once its oldest ask has waited for the reservation delay. Its demand reserves until a node fits
it, or until one of these holds: it can be obtained on no node, the partition as a whole has too little left, or the
pass has done the work it may do for reservations. Then the demand waits until that may have changed.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import islice

from ..limits import LEFTOVERS, RESERVATION_WAKES, RESERVATION_WORK_PER_PASS
from ..state import Node, Partition, PendingAsk
from .ask_classes import AskClass
from .demands import Demands
from .fit_list import Vector, covers
from .node_groups import Demand
from .nodes import NodeIndex


class ReservingDemands:
    """Which closed demands of a partition may reserve nodes, and why the others may not."""

    def __init__(self, partition: Partition, nodes: NodeIndex, demands: Demands) -> None:
        self._partition = partition
        self._nodes = nodes
        self._demands = demands
        self._now_ms = self._delay_ms = 0
        # Ask classes that are not old enough, by the time of their first ask in ms; and a heap of these times.
        self._aging: dict[int, dict[AskClass, None]] = {}
        self._times_ms: list[int] = []
        # Closed demands that may not reserve: they can be obtained on no node that is free of reservations; the
        # partition as a whole has too little left; the pass had done the work it may do.
        self._without_node: dict[Demand, None] = {}
        self._exceeding_total: dict[Demand, None] = {}
        self._deferred: dict[Demand, None] = {}
        self._work_left = 0  # in node groups to be looked at

    def begin_pass(self, now_ms: int, delay_ms: int) -> None:
        """`delay_ms`: age at which an ask may reserve a node."""
        self._now_ms, self._delay_ms, self._work_left = now_ms, delay_ms, RESERVATION_WORK_PER_PASS
        while self._times_ms and self._times_ms[0] + delay_ms <= now_ms:
            for ask_class in self._aging.pop(heappop(self._times_ms), ()):
                ask_class.aging_since_ms = None
                if ask_class.ranking.members:
                    self._has_aged(ask_class)
        deferred, self._deferred = self._deferred, {}
        for demand in deferred:
            self.start_reserving(demand)

    # Age

    def may_reserve(self, demand: Demand, ask: PendingAsk) -> bool:
        """Whether the ask has waited long enough. An ask that is bound to a node always has. After a reservation of it
        has timed out, it waits anew, and until the next pass at least."""
        if demand.required_node:
            return not ask.timed_out_ms or ask.timed_out_ms < self._now_ms
        return ask.waits_since_ms + self._delay_ms <= self._now_ms

    def too_young(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """Let the ask class reserve no node until its first ask is old enough or another ask is first, or until a node
        fits."""
        if ask_class.demand.required_node:
            self._defer(ask_class.demand)
            return
        ask_class.set_aside()
        self._wait(ask_class, ask.waits_since_ms)

    def _defer(self, demand: Demand) -> None:
        """The demand may reserve in the next pass."""
        self._demands.end_reserving(demand)
        self._deferred[demand] = None

    def age(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """The ask is the oldest of its ask class, as far as it is known."""
        ask_class.since_ms = ask.at_ms
        if ask_class.demand.required_node or ask.at_ms + self._delay_ms <= self._now_ms:
            self._has_aged(ask_class)
        else:
            self._wait(ask_class, ask.at_ms)

    def _wait(self, ask_class: AskClass, at_ms: int) -> None:
        """Does nothing if the ask class is looked at earlier: if its first ask is too young then, it waits again."""
        since_ms = ask_class.aging_since_ms
        if since_ms is not None and since_ms <= at_ms:
            return
        self.age_no_more(ask_class)
        ask_class.aging_since_ms = at_ms
        if at_ms not in self._aging:
            self._aging[at_ms] = {}
            heappush(self._times_ms, at_ms)
        self._aging[at_ms][ask_class] = None

    def age_no_more(self, ask_class: AskClass) -> None:
        """Does nothing if the ask class does not wait for its first ask to be old enough."""
        since_ms = ask_class.aging_since_ms
        if since_ms is None:
            return
        ask_class.aging_since_ms = None
        others = self._aging[since_ms]
        del others[ask_class]
        if not others:
            del self._aging[since_ms]
            if len(self._times_ms) > 2 * len(self._aging) + LEFTOVERS:
                self._times_ms = list(self._aging)
                heapify(self._times_ms)

    def _has_aged(self, ask_class: AskClass) -> None:
        if not ask_class.aged:
            ask_class.aged = True
            ask_class.demand.aged += 1
            ask_class.consider()
        self.start_reserving(ask_class.demand)
        if ask_class.aside:
            self.look_again(ask_class)

    def look_again(self, ask_class: AskClass) -> None:
        """Another ask may be the first of an ask class that was set aside, and old enough to reserve a node."""
        if ask_class.demand.reserving:
            ask_class.consider()

    # Reserving, or waiting to

    def start_reserving(self, demand: Demand) -> None:
        """Let the demand reserve nodes. Does nothing if the demand is open, reserves already or is
        not possible, or if none of its asks is old enough."""
        if demand.open or demand.reserving or not demand.possible or not demand.aged:
            return
        found = demand.predicate_class
        if found is not None and (found.question or demand in self._demands.unasked):
            return  # before the RM has answered
        self.wait_no_more(demand)
        self._demands.begin_reserving(demand)

    def fits_total(self, demand: Demand) -> bool:
        """Whether the partition as a whole has room for the demand. If not, the demand may not reserve until an
        allocation is released or nodes are added."""
        total, occupied, allocated = self._partition.total, self._partition.occupied, self._partition.root.allocated
        if all(
            amount <= total.get(name, 0) - occupied.get(name, 0) - allocated.get(name, 0)
            for name, amount in demand.items
        ):
            return True
        self._demands.end_reserving(demand)
        self._exceeding_total[demand] = None
        return False

    def closest_node(self, demand: Demand, but: str) -> Node | None:
        """The node to reserve: the one that lacks least; `but`: this one only if there is no other. None if it can be
        obtained on no node, or if the pass has done the work it may do; then the demand may not reserve for now. O(node
        groups)."""
        if self._work_left <= 0:
            self._defer(demand)
            return None
        node, looked_at = self._nodes.closest(demand, but)
        self._work_left -= looked_at
        if node is None:
            self._demands.end_reserving(demand)
            self._without_node[demand] = None
        return node

    def finds_no_node(self, demand: Demand) -> bool:
        """Whether the demand can be obtained on no node that is free of reservations. False if the pass has done the
        work it may do to find out. O(node groups) if it was not found out before."""
        if demand in self._without_node:
            return True
        if self._work_left <= 0:
            return False
        node, looked_at = self._nodes.closest(demand)
        self._work_left -= looked_at
        return node is None

    def wait_no_more(self, demand: Demand) -> None:
        """The demand is open, or reserves again."""
        self._without_node.pop(demand, None)
        self._exceeding_total.pop(demand, None)

    def remove(self, demand: Demand) -> None:
        """No ask has it any more."""
        self.wait_no_more(demand)
        self._deferred.pop(demand, None)

    def node_gained_room(self, obtainable: Vector) -> None:
        """A node on which so much can be obtained gained room: demands that found no node may reserve it."""
        for demand in list(islice(self._without_node, RESERVATION_WAKES)):
            if covers(obtainable, demand.need):
                self.start_reserving(demand)

    def total_gained_room(self) -> None:
        """The partition as a whole has more room: demands that it was too full for may reserve nodes."""
        for demand in list(islice(self._exceeding_total, RESERVATION_WAKES)):
            self.start_reserving(demand)
