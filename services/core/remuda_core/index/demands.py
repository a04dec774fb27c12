"""The demands of a partition's asks (semantics section 10), and which of them are closed.

A demand is open while some node may fit it. It is closed once the cycle has found none, and opens when a node gains
room. Closed demands stand in lists in which those that fit a given room are found without looking at the others.

`schedulable` is the set of demands, as bits, with which a search for the next ask has to reckon. Opening or closing a
demand changes a bit of it and nothing in the queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import neg
from typing import Any

from ..limits import SPELLINGS
from ..rules.required_node import required_node
from ..rules.resource import Items, Resource, items_of
from ..rules.share import scales_of, weight
from ..state import PendingAsk, PredicateClass, Refusals
from .demand_bits import FREED, RESERVING, DemandBits, bit_of
from .fit_list import FitList, Rank, Vector
from .node_groups import Demand
from .nodes import NodeIndex

# The key of a demand: amounts, a required node ("": any), nodes that the RM has refused, or the class of its asks.
DemandKey = tuple[Items, str, Refusals]


class BitCounts:
    """A set of numbers as bits, of which each may be added several times."""

    __slots__ = ("_counts", "bits")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.bits = 0

    def add(self, number: int) -> None:
        count = self._counts[number] = self._counts.get(number, 0) + 1
        if count == 1:
            self.bits |= bit_of(number)

    def take(self, number: int) -> None:
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._counts[number]
            self.bits &= ~bit_of(number)


class Demands:
    """All demands of the partition: each is that of an ask class or of a reservation."""

    def __init__(self, nodes: NodeIndex, names: Mapping[str, int], total: Resource) -> None:
        """`names`: place of each resource in vectors. `total`: of the partition, by which demands are weighed."""
        self._nodes = nodes
        self._names = names
        self.scales = scales_of(total)
        self.by_key: dict[DemandKey, Demand] = {}
        # The same by the items in the order in which the RM wrote them: a key that needs no sorting.
        self._by_spelling: dict[tuple[Any, ...], Demand] = {}
        self.by_class: dict[PredicateClass, dict[Demand, None]] = {}
        # Closed demands about which the RM is to be asked, once fewer questions are open.
        self.unasked: dict[Demand, None] = {}
        self._number = 0
        # Closed demands, found by the room that a node has.
        self.closed: FitList[Demand] = FitList(nodes.width)
        # Those that open whenever a node fits, also a freed one: they are node-specific or have reservations. And those
        # bound to a node, by its ID.
        self.closed_singly: FitList[Demand] = FitList(nodes.width)
        self.closed_bound: dict[str, dict[Demand, None]] = {}
        # For each demand a bit while it is open, one while it fits a freed node, and one while it is reserving.
        self.bits = DemandBits(nodes.width)
        self.schedulable = 0
        self.risen = 0  # how often a demand has become schedulable
        self._freed = 0
        self._open, self._reserving, self._closed = BitCounts(), BitCounts(), BitCounts()

    def of(self, ask: PendingAsk) -> Demand:
        """The demand of the ask; made if no other ask has it."""
        resource, tags, refused = ask.ask.resource, ask.ask.tags, ask.refused
        node_id = required_node(tags) if tags else ""
        spelling = (*resource.items(), node_id, refused)
        demand = self._by_spelling.get(spelling)
        if demand is None:
            key = (items_of(resource), node_id, refused)
            demand = self.by_key.get(key) or self._make(key, resource)
            if len(demand.spellings) < SPELLINGS:
                demand.spellings.append(spelling)
                self._by_spelling[spelling] = demand
        return demand

    def _make(self, key: DemandKey, resource: Resource) -> Demand:
        items, node_id, refused = key
        self._number += 1
        need, heavy = self._nodes.vector(resource), weight(resource, self.scales)
        demand = self.by_key[key] = Demand(
            resource, items, node_id, refused, need, heavy, self._number,
            refused if isinstance(refused, PredicateClass) else None,
        )  # fmt: skip
        if any(name not in self._names for name, _ in items):
            demand.possible = demand.open = demand.schedulable = False
        if demand.predicate_class is not None:
            self.by_class.setdefault(demand.predicate_class, {})[demand] = None
        demand.numbered = self.bits.give(need)
        demand.bit = bit_of(demand.numbered)
        if demand.open:
            self._open.add(demand.numbered)
            self._has_risen()
        return demand

    def remove(self, demand: Demand) -> None:
        """No ask has it any more."""
        self.end_reserving(demand)
        self.unlist(demand)
        self.unasked.pop(demand, None)
        if demand.open:
            self._open.take(demand.numbered)
        self._changed()
        self.bits.take(demand.numbered)
        self._nodes.forget(demand)
        if demand.predicate_class is not None:
            of_class = self.by_class[demand.predicate_class]
            del of_class[demand]
            if not of_class:
                del self.by_class[demand.predicate_class]
        del self.by_key[key_of(demand)]
        for spelling in demand.spellings:
            del self._by_spelling[spelling]

    def measure(self, total: Resource) -> None:
        """Weigh all demands by another total of the partition. O(demands)."""
        self.scales = scales_of(total)
        for demand in self.by_key.values():
            demand.weight = weight(demand.resource, self.scales)

    # Sets of demands

    def _changed(self) -> None:
        self.schedulable = self._open.bits | self._freed << FREED | self._reserving.bits << RESERVING

    def _has_risen(self) -> None:
        self.risen += 1
        self._changed()

    def freed(self, bits: int) -> None:
        """Which demands the freed nodes may fit."""
        self._freed = bits
        self._changed()

    def closed_in(self, room: Vector) -> int:
        """The closed demands that fit the room, as bits; there may be some more. Without node-specific ones and those
        with reservations."""
        return self.bits.covered(room) & self._closed.bits

    def schedulable_in(self, negated_headroom: Vector) -> int:
        """Those of the schedulable demands that fit the headroom, as bits; there may be some more."""
        return self.schedulable & self.in_headroom(negated_headroom)

    def in_headroom(self, negated_headroom: Vector) -> int:
        fitting = self.bits.covered(tuple(map(neg, negated_headroom)))
        return fitting | fitting << FREED | fitting << RESERVING

    # Open and closed

    def close(self, demand: Demand) -> None:
        """No node fits it now."""
        if demand.open:
            self._open.take(demand.numbered)
        demand.open = demand.schedulable = False
        if demand.required_node:
            self.closed_bound.setdefault(demand.required_node, {})[demand] = None
        elif demand.node_specific or demand.reserved:
            self._list(demand, self.closed_singly)
        else:
            self._list(demand, self.closed)
            self._closed.add(demand.numbered)
        self._changed()

    def _list(self, demand: Demand, closed: FitList[Demand]) -> None:
        demand.closed_list = closed
        closed.put(demand, (demand.number,))

    def open(self, demand: Demand) -> None:
        """Some node may fit it."""
        self.unlist(demand)
        self.unasked.pop(demand, None)
        if demand.reserving:
            self._reserving.take(demand.numbered)
        if not demand.open:
            self._open.add(demand.numbered)
        demand.open = demand.schedulable = True
        demand.reserving = False
        self._has_risen()
        self._consider_all(demand)

    def begin_reserving(self, demand: Demand) -> None:
        """Let the asks of a closed demand reserve nodes."""
        demand.reserving = demand.schedulable = True
        self._reserving.add(demand.numbered)
        self._has_risen()
        self._consider_all(demand)

    def end_reserving(self, demand: Demand) -> None:
        if demand.reserving:
            demand.reserving = demand.schedulable = False
            self._reserving.take(demand.numbered)
            self._changed()

    def _consider_all(self, demand: Demand) -> None:
        set_aside, demand.set_aside = demand.set_aside, {}
        for ask_class in set_aside:
            ask_class.consider()

    def unlist(self, demand: Demand) -> None:
        """Take it out of the lists of closed demands."""
        if demand.closed_list is not None:
            if demand.closed_list is self.closed:
                self._closed.take(demand.numbered)
            demand.closed_list.remove(demand)
            demand.closed_list = None
        if demand.required_node:
            bound = self.closed_bound.get(demand.required_node, {})
            bound.pop(demand, None)
            if not bound:
                self.closed_bound.pop(demand.required_node, None)

    def open_singly(self, demand: Demand) -> None:
        """From now on a closed demand opens whenever a node fits it."""
        self.unlist(demand)
        self._list(demand, self.closed_singly)
        self._changed()

    def closed_that_fit(self, room: Vector) -> Iterator[Demand]:
        """The closed demands that fit the room, except node-specific ones and those with reservations. O(log n)
        each."""
        return fitting(self.closed, room)


def fitting(closed: FitList[Demand], room: Vector) -> Iterator[Demand]:
    """The demands of the list that fit the room, the oldest first. The caller may open them meanwhile."""
    need = tuple(map(neg, room))
    start: Rank = ()
    while (demand := closed.first(need, start)) is not None:
        start = (demand.number, 0)  # right behind it
        yield demand


def key_of(demand: Demand) -> DemandKey:
    return (demand.items, demand.required_node, demand.refused)
