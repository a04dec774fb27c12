"""The demands of a partition's asks (semantics section 10), and which of them are closed.

A demand is open while some node may fit it. It is closed once the cycle has found none, and opens when a node gains
room. Closed demands stand in lists in which those that fit a given room are found without looking at the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from operator import neg
from typing import Any

from ..limits import SPELLINGS
from ..rules.required_node import required_node
from ..rules.resource import Items, Resource, items_of
from ..rules.share import scales_of, weight
from ..state import PendingAsk
from .fit_list import FitList, Rank, Vector, covers
from .node_groups import Demand
from .nodes import NodeIndex

# The key of a demand: amounts, a required node ("": any), nodes that the RM has refused.
DemandKey = tuple[Items, str, frozenset[str]]


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
        self._number = 0
        # Closed demands, found by the room that a node has.
        self.closed: FitList[Demand] = FitList(nodes.width)
        # Those that open whenever a node fits, also a freed one: they are node-specific or have reservations. And those
        # bound to a node, by its ID.
        self.closed_singly: FitList[Demand] = FitList(nodes.width)
        self.closed_bound: dict[str, dict[Demand, None]] = {}
        # All ask classes; and those whose demand is live: none, and no ask can be placed or reserve a node.
        self.ask_classes = self.schedulable_ask_classes = 0
        # Per resource the smallest amount that any demand has had, negated. None: there is no demand.
        self._least: Vector | None = None

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
        demand = self.by_key[key] = Demand(resource, items, node_id, refused, need, heavy, self._number)
        if any(name not in self._names for name, _ in items):
            demand.possible = demand.open = demand.schedulable = False
        return demand

    def remove(self, demand: Demand) -> None:
        """No ask has it any more."""
        self.unlist(demand)
        self._nodes.forget(demand)
        del self.by_key[key_of(demand)]
        for spelling in demand.spellings:
            del self._by_spelling[spelling]
        if not self.by_key:
            self._least = None

    def measure(self, total: Resource) -> None:
        """Weigh all demands by another total of the partition. O(demands)."""
        self.scales = scales_of(total)
        for demand in self.by_key.values():
            demand.weight = weight(demand.resource, self.scales)

    def any_fits(self, negated_headroom: Vector) -> bool:
        """A headroom too small for the smallest amounts of all demands needs no search below. Both are negated."""
        return self._least is None or covers(self._least, negated_headroom)

    # Ask classes

    def count_ask_class(self, demand: Demand) -> None:
        """An ask class of this demand was made."""
        demand.ask_classes += 1
        self.ask_classes += 1
        if demand.schedulable:
            self.schedulable_ask_classes += 1
        self._least = demand.negated if self._least is None else tuple(map(max, self._least, demand.negated))

    def uncount_ask_class(self, demand: Demand) -> None:
        demand.ask_classes -= 1
        self.ask_classes -= 1
        if demand.schedulable:
            self.schedulable_ask_classes -= 1

    # Open and closed

    def close(self, demand: Demand) -> None:
        """No node fits it now."""
        demand.open = demand.schedulable = False
        self.schedulable_ask_classes -= demand.ask_classes
        if demand.required_node:
            self.closed_bound.setdefault(demand.required_node, {})[demand] = None
        else:
            demand.closed_list = self.closed_singly if demand.node_specific or demand.reserved else self.closed
            demand.closed_list.put(demand, (demand.number,))

    def open(self, demand: Demand) -> None:
        """Some node may fit it."""
        self.unlist(demand)
        if not demand.schedulable:
            self.schedulable_ask_classes += demand.ask_classes
        demand.open = demand.schedulable = True
        demand.reserving = False
        self._reopen_ask_classes(demand)

    def begin_reserving(self, demand: Demand) -> None:
        """Let the asks of a closed demand reserve nodes."""
        demand.reserving = demand.schedulable = True
        self.schedulable_ask_classes += demand.ask_classes
        self._reopen_ask_classes(demand)

    def end_reserving(self, demand: Demand) -> None:
        if demand.reserving:
            demand.reserving = demand.schedulable = False
            self.schedulable_ask_classes -= demand.ask_classes

    def _reopen_ask_classes(self, demand: Demand) -> None:
        ask_classes, demand.closed_ask_classes = demand.closed_ask_classes, {}
        for ask_class in ask_classes:
            ask_class.reopen()

    def unlist(self, demand: Demand) -> None:
        """Take it out of the lists of closed demands."""
        if demand.closed_list is not None:
            demand.closed_list.remove(demand)
            demand.closed_list = None
        if demand.required_node:
            bound = self.closed_bound.get(demand.required_node, {})
            bound.pop(demand, None)
            if not bound:
                self.closed_bound.pop(demand.required_node, None)

    def open_singly(self, demand: Demand) -> None:
        """From now on a closed demand opens whenever a node fits it."""
        self.closed.remove(demand)
        demand.closed_list = self.closed_singly
        self.closed_singly.put(demand, (demand.number,))

    def closed_that_fit(self, room: Vector, most: int | None = None) -> list[Demand]:
        """The closed demands that fit the room, except node-specific ones and those with reservations; at most `most`
        (None: all). O(log n) each."""
        return list(islice(fitting(self.closed, room), most))


def fitting(closed: FitList[Demand], room: Vector) -> Iterator[Demand]:
    """The demands of the list that fit the room, the oldest first. The caller may open them meanwhile."""
    need = tuple(map(neg, room))
    start: Rank = ()
    while (demand := closed.first(need, start)) is not None:
        start = (demand.number, 0)  # right behind it
        yield demand


def key_of(demand: Demand) -> DemandKey:
    return (demand.items, demand.required_node, demand.refused)
