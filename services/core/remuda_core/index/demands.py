"""The demands of a partition's asks (semantics section 10), and which of them a search has to reckon with.

    Demands       all demands by key; which are open, reserving, closed
    FreedNodes    the nodes that gained room while demands that fit them stay closed
    DemandBits    a bit for each demand, so that sets of demands are integers (`BitCounts`: with several of a number)

A demand is open while some node may fit it. It is closed once the pass has found none, and opens when a node gains
room. Closed demands are in lists in which those that fit a given room are found without looking at the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from operator import neg
from typing import Any, Protocol

from ..costs import bound_ms
from ..limits import DEMAND_BITS, FREED_NODES, LEVELS_KEPT, SPELLINGS
from ..rules.devices import DeviceNeed
from ..rules.devices import needs as needs_of
from ..rules.keyed import unlist
from ..rules.required_node import required_node
from ..rules.resource import Items, Resource
from ..rules.share import scales_of, weight
from ..rules.topology import Wish
from ..settings import EASY, SHORTEST
from ..state import Node, Partition, PendingAsk, PredicateClass, Refusals
from .devices import items_with, needed_amounts, places_in
from .lasting import with_need
from .node_groups import Demand, Grouped, Lasts, OnDevices
from .nodes import NodeIndex
from .ordered import FitList, Rank, Vector, covers

# The key of a demand: amounts, a required node ("": any), nodes that the RM has refused, or the predicate class; of
# members of a group also the key of the group, and what they want of the topology; in a partition with backfill, of
# others, how long they run at most and are expected to; under budgets, of all, their bound and whether they are
# placeholders.
DemandKey = tuple[Items, str, Refusals, *tuple[Any, ...]]


class GroupsOfAsks(Protocol):
    """The groups of the partition, as demands see them."""

    def member_of(self, ask: PendingAsk) -> tuple[Grouped, Wish] | None: ...
    def closed(self, demand: Demand) -> None: ...
    def not_closed(self, demand: Demand) -> None: ...


class Demands:
    """All demands of a partition. Each is the demand of an ask class or of a reservation.

    `schedulable` is the set of demands, as bits, with which a search for the next ask has to reckon: those that are
    open, reserving, or closed and fit a freed node. A demand that opens or closes changes a bit of it, and nothing in
    the queues."""

    def __init__(self, partition: Partition, nodes: NodeIndex, names: Mapping[str, int]) -> None:
        """`names`: the place of each resource in vectors. Demands are weighed by the total of the partition."""
        self._nodes = nodes
        self._names = names
        self._units = partition.settings.devices
        self._audiences = nodes.audiences
        self._backfill = partition.settings.backfill == EASY
        self._shortest = partition.settings.backfill_order == SHORTEST
        # Set in partitions with a topology.
        self.groups: GroupsOfAsks | None = None
        self.scales = scales_of(partition.total)
        self.by_key: dict[DemandKey, Demand] = {}
        # The demands by the items in the order in which the RM wrote them: a key that needs no sorting.
        self._by_spelling: dict[tuple[Any, ...], Demand] = {}
        self.by_class: dict[PredicateClass, dict[Demand, None]] = {}
        # Closed demands about which the RM is to be asked, once fewer questions are open.
        self.unasked: dict[Demand, None] = {}
        self._number = 0
        # Closed demands, found by the room that a node has.
        self.closed: FitList[Demand] = FitList(nodes.width)
        # Closed demands that open whenever a node fits, also a freed one: they are node-specific or have reservations.
        self.closed_singly: FitList[Demand] = FitList(nodes.width)
        # Closed demands that are bound to a node, by its ID.
        self.closed_bound: dict[str, dict[Demand, None]] = {}
        # For each demand a bit for while it is open, one for while it fits a freed node, and one for while it reserves.
        self.bits = DemandBits(nodes.width)
        self.schedulable = 0
        # How often a demand has become schedulable: what was found at this count is still the first.
        self.risen = 0
        self._freed = 0
        self._open, self._reserving, self._closed = BitCounts(), BitCounts(), BitCounts()

    def of(self, ask: PendingAsk) -> Demand:
        """The demand of the ask. Made if no other ask has it."""
        resource, tags, refused = ask.ask.resource, ask.ask.tags, ask.refused
        needs = needs_of(self._units, resource, tags) if self._units else ()
        node_id = required_node(tags) if tags else ""
        amounts = with_need(resource, ask, self._audiences) if self._audiences else resource
        if self.groups is not None and (member := self.groups.member_of(ask)) is not None:
            group, wish = member
            lasts: Lasts = (0, 0, *_under_budgets(ask)) if ask.application.queue.budgets else ()
            of_group = (items_with(amounts, needs), node_id, refused, group.key, wish, *lasts)
            return self.by_key.get(of_group) or self._make(of_group, resource, needs, group, wish, lasts)
        lasts = self.lasts(ask) if self._backfill or ask.application.queue.budgets else ()
        spelling = (*amounts.items(), *needs, node_id, refused, *lasts)
        demand = self._by_spelling.get(spelling)
        if demand is None:
            key: DemandKey = (items_with(amounts, needs), node_id, refused, *lasts)
            demand = self.by_key.get(key) or self._make(key, resource, needs, lasts=lasts)
            if len(demand.spellings) < SPELLINGS:
                demand.spellings.append(spelling)
                self._by_spelling[spelling] = demand
        return demand

    def lasts(self, ask: PendingAsk) -> Lasts:
        """The longest and the expected run time of the ask's allocations, in ms, as part of a key. Asks are told apart
        by their expectations only where that is their order."""
        lasts: Lasts = ()
        if self._backfill:
            lasts = max(0, ask.ask.execution_timeout_ms), ask.expected_ms if self._shortest else 0
        return (*(lasts or (0, 0)), *_under_budgets(ask)) if ask.application.queue.budgets else lasts

    def _make(
        self, key: DemandKey, resource: Resource, needs: tuple[DeviceNeed, ...], group: Grouped | None = None,
        wish: Wish | None = None, lasts: Lasts = (),
    ) -> Demand:  # fmt: skip
        items, node_id, refused = key[:3]
        self._number += 1
        need = self._nodes.vector(needed_amounts(self._names, items) if needs or self._audiences else resource)
        heavy = weight(resource, self.scales)
        demand = self.by_key[key] = Demand(
            resource, items, node_id, refused, need, heavy, self._number,
            refused if isinstance(refused, PredicateClass) else None,
            tuple(OnDevices(places_in(self._names, one.resource), one.share, one.devices) for one in needs),
            group, wish, lasts,
        )  # fmt: skip
        if any(name not in self._names for name in resource if resource[name]):
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
        """Remove a demand that no ask and no reservation has any more."""
        self.end_reserving(demand)
        self.unlist(demand)
        self.unasked.pop(demand, None)
        if demand.open:
            self._open.take(demand.numbered)
        self._changed()
        self.bits.take(demand.numbered)
        self._nodes.forget(demand)
        if demand.predicate_class is not None:
            unlist(self.by_class, demand.predicate_class, demand)
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
        """Set which closed demands the freed nodes may fit, as bits."""
        self._freed = bits
        self._changed()

    def closed_in(self, room: Vector) -> int:
        """The closed demands that fit the room, as bits; there may be some more. Without node-specific ones and those
        with reservations."""
        return self.bits.covered(room) & self._closed.bits

    def schedulable_in(self, negated_headroom: Vector) -> int:
        """The schedulable demands that fit the headroom, as bits; there may be some more."""
        return self.schedulable & self.in_headroom(negated_headroom)

    def in_headroom(self, negated_headroom: Vector) -> int:
        """The demands that fit the headroom, as bits for each of their states; there may be some more."""
        fitting = self.bits.covered(tuple(map(neg, negated_headroom)))
        return fitting | fitting << FREED | fitting << RESERVING

    # Open and closed

    def close(self, demand: Demand) -> None:
        """Close the demand: no node fits it now."""
        if demand.open:
            self._open.take(demand.numbered)
        demand.open = demand.schedulable = False
        if self.groups is not None and demand.group_of_asks is not None:
            self.groups.closed(demand)
        elif demand.required_node:
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
        """Open the demand: some node may fit it."""
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
        """Let asks of the demand reserve no more nodes. Does nothing if it does not reserve."""
        if demand.reserving:
            demand.reserving = demand.schedulable = False
            self._reserving.take(demand.numbered)
            self._changed()

    def _consider_all(self, demand: Demand) -> None:
        set_aside, demand.set_aside = demand.set_aside, {}
        for ask_class in set_aside:
            ask_class.consider()

    def unlist(self, demand: Demand) -> None:
        """Take the demand out of the lists of closed demands."""
        if demand.closed_list is not None:
            if demand.closed_list is self.closed:
                self._closed.take(demand.numbered)
            demand.closed_list.remove(demand)
            demand.closed_list = None
        if self.groups is not None and demand.group_of_asks is not None:
            self.groups.not_closed(demand)
        elif demand in self.closed_bound.get(demand.required_node, ()):
            unlist(self.closed_bound, demand.required_node, demand)

    def open_singly(self, demand: Demand) -> None:
        """Let a closed demand open whenever a node fits it, also a freed one."""
        self.unlist(demand)
        self._list(demand, self.closed_singly)
        self._changed()


def fitting(closed: FitList[Demand], room: Vector) -> Iterator[Demand]:
    """The demands of the list that fit the room, the oldest first, in O(log n) each. The caller may open them
    meanwhile."""
    need = tuple(map(neg, room))
    start: Rank = ()
    while (demand := closed.first(need, start)) is not None:
        start = (demand.number, 0)  # right behind it
        yield demand


def _under_budgets(ask: PendingAsk) -> tuple[int, bool]:
    return bound_ms(ask.application, ask.ask), ask.ask.placeholder


def key_of(demand: Demand) -> DemandKey:
    if demand.group_of_asks is not None and demand.wish is not None:
        return (
            demand.items,
            demand.required_node,
            demand.refused,
            demand.group_of_asks.key,
            demand.wish,
            *demand.lasts,
        )
    return (demand.items, demand.required_node, demand.refused, *demand.lasts)


class FreedNodesIndex(Protocol):
    """The index of the partition, as freed nodes see it."""

    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def demands(self) -> Demands: ...
    def open(self, demand: Demand) -> None: ...


class FreedNodes:
    """The nodes that gained room while asks wait, which are at most FREED_NODES.

    Of the closed demands that fit a freed node, one or two fill it again, and the others would open only to be closed
    again, one search for a node each. So they stay closed, and the node is listed here with their bits. They count as
    schedulable as long as the node has the room."""

    def __init__(self, index: FreedNodesIndex) -> None:
        self._index = index
        # The closed demands that fit each node, as bits. There may be some more: the node may have less room than it
        # had.
        self.nodes: dict[Node, int] = {}

    def add_node(self, node: Node, room: Vector) -> None:
        """List a node that gained room, and has this room now."""
        self._index.demands.risen += 1
        self._set(node, room)
        if len(self.nodes) > FREED_NODES:
            self.open_all()

    def _set(self, node: Node, room: Vector) -> None:
        bits = self._index.demands.closed_in(room)
        if bits:
            self.nodes[node] = bits
            self._changed()
        elif node in self.nodes:
            self._drop(node)

    def _changed(self) -> None:
        bits = 0
        for each in self.nodes.values():
            bits |= each
        self._index.demands.freed(bits)

    def _drop(self, node: Node) -> None:
        del self.nodes[node]
        self._changed()

    def shrunk(self, node: Node) -> None:
        """Note that the node has less room than it had. Does nothing if it is not a freed node."""
        if node in self.nodes:
            group = self._index.nodes.group_of(node)
            if group is None:
                self._drop(node)
            else:
                self._set(node, group.available)

    def any_fits(self, demand: Demand) -> bool:
        """Whether one of the freed nodes has room for a closed demand. False for a demand that opens singly."""
        if not self.nodes or demand.closed_list is not self._index.demands.closed:
            return False
        return next(self._with_room(demand), None) is not None

    def only_node(self, demand: Demand) -> Node | None:
        """The freed node that has room for a closed demand; None if there are more than one, or none."""
        fitting = self._with_room(demand)
        node = next(fitting, None)
        return node if next(fitting, None) is None else None

    def _with_room(self, demand: Demand) -> Iterator[Node]:
        bit, nodes = demand.bit, self._index.nodes
        for node, bits in list(self.nodes.items()):
            if bits & bit:
                group = nodes.group_of(node)
                if group is not None and covers(group.available, demand.need):
                    yield node
                else:
                    self.shrunk(node)

    def open_all(self) -> None:
        """Open every closed demand that fits a freed node, and list no node any more."""
        if not self.nodes:
            return
        freed, self.nodes = self.nodes, {}
        self._index.demands.freed(0)
        for node in freed:
            group = self._index.nodes.group_of(node)
            if group is not None:
                for demand in fitting(self._index.demands.closed, group.available):
                    self._index.open(demand)


# Each demand has three bits in sets that say what a search has to look at: one for while the demand is open, one
# (shifted by FREED) for while a freed node fits it, and one (shifted by RESERVING) for while it reserves.
STATES = 3
FREED = 1
RESERVING = 2


class DemandBits:
    """Gives each demand a number with bits, and says as a set of bits which demands a room covers.

    Several demands share a number where there are more than DEMAND_BITS. Amounts are told apart exactly up to
    LEVELS_KEPT different ones of a resource; further ones are rounded down by a thirty-second at most. So a set may
    name a demand too many, never one too few."""

    __slots__ = ("_free", "_given", "_last", "_levels", "_masks", "_sharing")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._sharing: list[int] = []  # how many demands have each number
        self._free: list[int] = []  # the numbers that no demand has any more
        self._given = 0  # the first bits of all numbers
        self._last = 0  # the number that was shared last
        # For each resource the amounts that are needed of it, and for each interval between two of them the demands to
        # which an amount in it is enough.
        self._levels: list[list[float]] = [[] for _ in range(width)]
        self._masks: list[list[int]] = [[0] for _ in range(width)]

    def give(self, need: Vector) -> int:
        """A number for a demand."""
        number = self._number()
        self._sharing[number] += 1
        bit = bit_of(number)
        for amount, levels, masks in zip(need, self._levels, self._masks, strict=True):
            level = amount if len(levels) < LEVELS_KEPT else rounded_down(int(amount))
            place = bisect_left(levels, level)
            if place == len(levels) or levels[place] != level:
                levels.insert(place, level)
                masks.insert(place, masks[place])
            for above in range(place + 1, len(masks)):
                if masks[above] & bit:
                    break
                masks[above] |= bit
        return number

    def _number(self) -> int:
        if self._free:
            number = self._free.pop()
            self._clear(bit_of(number))
            return number
        if len(self._sharing) < DEMAND_BITS:
            self._given |= bit_of(len(self._sharing))
            self._sharing.append(0)
            return len(self._sharing) - 1
        self._last = (self._last + 1) % DEMAND_BITS
        return self._last

    def take(self, number: int) -> None:
        """Take back the number of a demand that was removed."""
        self._sharing[number] -= 1
        if not self._sharing[number]:
            self._free.append(number)

    def covered(self, room: Vector) -> int:
        """The first bits of all demands that the room covers."""
        found = self._given
        for amount, levels, masks in zip(room, self._levels, self._masks):  # noqa: B905 - the hot path
            found &= masks[bisect_right(levels, amount)]
        return found

    def _clear(self, bit: int) -> None:
        """Let no room cover the bit, which no demand has. Levels at which no demand begins are dropped."""
        for place, (levels, masks) in enumerate(zip(self._levels, self._masks, strict=True)):
            kept_levels, kept_masks = list[float](), [masks[0] & ~bit]
            for level, mask in zip(levels, masks[1:], strict=True):
                if mask & ~bit != kept_masks[-1]:
                    kept_levels.append(level)
                    kept_masks.append(mask & ~bit)
            self._levels[place], self._masks[place] = kept_levels, kept_masks


class BitCounts:
    """A multiset of numbers, and the OR of their bits."""

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


def bit_of(number: int) -> int:
    """The first of the STATES bits of a number."""
    return 1 << STATES * number


def rounded_down(amount: int) -> int:
    """The amount, rounded down to six significant binary digits."""
    places = max(amount.bit_length() - 6, 0)
    return amount >> places << places
