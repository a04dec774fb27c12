"""Demands of asks on nodes, and groups of nodes that are the same to the rules.

    Demand       the requirements of asks on a node; thousands of asks share one
    NodeGroup    the nodes with the same capacity, obtainable and available amounts
    NodeEntry    a node in its group

`NodeIndex` assigns nodes to groups and finds the best group for a demand; `Demands` has the demands of all asks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge
from itertools import chain, islice
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from ..limits import LEFTOVERS
from ..rules.budget import NO_COST, Cost, cost_of
from ..rules.devices import choose
from ..rules.resource import Items, Resource
from ..rules.topology import Wish
from ..state import NO_NODES, Node, PredicateClass, Refusals
from .ordered import HIDDEN, FitList, Rank, Vector, covers

# See `Demand.lasts`.
Lasts = tuple[int, int] | tuple[int, int, int, bool] | tuple[()]


class SetAside(Protocol):
    """An ask class whose first ask may not reserve a node yet, or that a search has passed over."""

    def consider(self) -> None: ...


class Grouped(Protocol):
    """The group of asks whose members have a demand (semantics section 21)."""

    @property
    def key(self) -> tuple[str, str]: ...


class OnDevices(NamedTuple):
    """`share` of each of so many `devices`. `places`: of all devices of the resource in vectors, the one with most free
    first."""

    places: tuple[int, ...]
    share: int
    devices: int


@dataclass(slots=True, eq=False)
class Demand:
    """The requirements of asks on a node; thousands of asks share a demand. It is in one of these states:

    open         some node may fit it
    reserving    no node fits it, and its asks may reserve nodes
    closed       no node fits it, until one gains room; `ReservingDemands` says why it cannot reserve"""

    resource: Resource
    # The amounts of the resource in the order of their names: equal resources have equal items.
    items: Items
    # The ID of the node that the asks are bound to; empty: any node.
    required_node: str
    # The IDs of the nodes that the RM refuses for the asks, or their predicate class.
    refused: Refusals
    # The resource as a vector, and the same negated, as headrooms and closed demands are compared.
    need: Vector
    # The weight of one ask, among all that is pending.
    weight: int
    # Grows with each demand of a partition. 0: the demand is not one of `Demands`.
    number: int = 0
    # Only nodes that are accepted for this class are chosen.
    predicate_class: PredicateClass | None = None
    # What the asks need of devices.
    on_devices: tuple[OnDevices, ...] = ()
    # The group that its asks are members of, and what they want of the topology. Then `negated` and `quota` are those
    # of all members that start together, and the demand is closed until a domain may have room for them.
    group_of_asks: Grouped | None = None
    wish: Wish | None = None
    # With backfill: the bound of the asks, and how long they are expected to run if the shortest go first, in ms, of
    # which 0 is not known. Under budgets: their bound as budgets see it, and whether they are placeholders. Else empty.
    lasts: Lasts = ()
    quota: Resource = field(init=False)
    # The cost that budgets have to leave, of a group for all that start together.
    cost: Cost = field(init=False)
    negated: Vector = field(init=False)
    # Whether nodes of one group may differ for the demand.
    node_specific: bool = field(init=False)

    # The state. `schedulable`: open or reserving. Not `possible`: the demand names a resource that no node has, and is
    # always closed.
    open: bool = True
    schedulable: bool = True
    reserving: bool = False
    possible: bool = True
    # The list of closed demands that has the demand, and its place there (`Listed`). None: the demand is schedulable,
    # bound to a node, or was never closed.
    closed_list: FitList[Demand] | None = None
    room: Vector = field(init=False)
    rank: Rank | None = None
    # The number whose bits stand for the demand in sets of demands, and the first of these bits (`DemandBits`).
    numbered: int = 0
    bit: int = 0

    # The ask classes with pending asks of the demand, and how many of them have waited long enough to reserve a node.
    ask_classes: int = 0
    aged: int = 0
    # Of these the ask classes whose first ask may not reserve a node yet, or that a search has passed over.
    set_aside: dict[SetAside, None] = field(default_factory=dict)
    # The nodes reserved for asks of the demand.
    reserved: dict[Node, None] = field(default_factory=dict)
    # The keys under which `Demands` finds the demand without sorting the amounts of an ask.
    spellings: list[tuple[object, ...]] = field(default_factory=list)

    # What `NodeIndex.best` knows from its last search, when it had seen so many changes of groups: no group before
    # `search_start` had room; `group` had, if no other had its score; `runner_up` is the best when that is used up.
    changes_seen: int = 0
    search_start: Rank = ()
    group: NodeGroup | None = None
    runner_up: NodeGroup | None = None
    # The groups whose `next_groups` has the demand.
    remembering_groups: list[NodeGroup] = field(default_factory=list)
    # The nodes that walks have looked at since accepted ones were ranked (`AcceptedNodes`).
    looked_at: int = 0

    def __post_init__(self) -> None:
        self.node_specific = bool(self.required_node) or self.refused != NO_NODES
        self.negated = self.room = tuple(-amount for amount in self.need)
        self.quota = self.resource
        self.cost = self.cost_of_one

    @property
    def bound(self) -> float:
        """The longest time that an allocation runs, in ms; infinite: not known."""
        return (self.lasts[0] if self.lasts else 0) or inf

    @property
    def under_budgets(self) -> bool:
        return len(self.lasts) > 2

    @property
    def cost_of_one(self) -> Cost:
        """The cost of an allocation of such an ask that starts by itself."""
        return cost_of(self.resource, self.cost_bound_ms) if self.under_budgets else NO_COST

    @property
    def cost_bound_ms(self) -> int:
        """The bound of the asks under budgets, in ms; 0: not known."""
        return self.lasts[2] if len(self.lasts) > 2 else 0

    @property
    def of_placeholders(self) -> bool:
        """Whether the asks are placeholders under budgets."""
        return len(self.lasts) > 2 and bool(self.lasts[3])

    @property
    def expectation(self) -> float:
        """The expected run time of an allocation, in ms, if the shortest go first; infinite: not known."""
        return (self.lasts[1] if self.lasts else 0) or inf

    def avoids(self, node_id: str) -> bool:
        """Whether the RM refuses the node, or has to accept it first."""
        found = self.predicate_class
        return node_id in self.refused if found is None else node_id not in found.accepted

    def after(self, available: Vector) -> Vector:
        """The amounts that are available once the demand has been placed where `available` is, on the devices that are
        chosen then."""
        rest = [have - want for have, want in zip(available, self.need, strict=True)]
        for need in self.on_devices:
            free: list[Any] = [available[place] for place in need.places]
            for at in choose(free, need.share, need.devices):
                free[at] -= need.share
            free.sort(reverse=True)
            for place, amount in zip(need.places, free, strict=True):
                rest[place] = amount
        return tuple(rest)

    def next_best(self) -> NodeGroup | None:
        """The group that is the best after the best one was used up. None: that takes a search."""
        group, self.runner_up = self.runner_up, None
        self.group = group if group is not None and group.size else None
        if self.group is not None and self.group.rank is not None:
            self.search_start = self.group.rank
        return self.group

    def joined(self, group: NodeGroup) -> None:
        """Note that this group got its first node by an allocation of the demand, the only change since the last
        search."""
        rank, best = group.rank, self.search_start[0]
        assert rank is not None, "a group with nodes is listed"
        if group.score > best:
            if self.runner_up is not None and group.score <= self.runner_up.score:
                self.runner_up = None
        elif covers(group.room, self.need):
            if group.score < best:
                if self.group is not None and self.group.size:
                    self.runner_up = self.group
                self.group = group
            else:
                self.group = self.runner_up = None  # a tie, to be looked into
            self.search_start = min(self.search_start, rank)


_BY_ID = attrgetter("id")


@dataclass(slots=True, eq=False)
class NodeEntry:
    """A node in the index."""

    node: Node
    id: str = field(init=False)
    # The group that the node is in. None: nothing may be placed on it.
    group: NodeGroup | None = None
    # Its domain is avoided: the node comes behind all others.
    avoided: bool = False

    def __post_init__(self) -> None:
        self.id = self.node.id

    def __lt__(self, other: NodeEntry) -> bool:
        return self.id < other.id


@dataclass(slots=True, eq=False)
class NodeGroup:
    """The nodes of one capacity and the same obtainable and available amounts, by ID; none or all of them avoided."""

    # Distinguishes groups of the same score. Grows with each group.
    number: int
    capacity: Vector
    obtainable: Vector
    available: Vector
    score: float
    avoided: bool = False
    # How many nodes have this group. `line` and `others` hold each of them once at least, and nodes that have left.
    size: int = 0
    # The nodes that came in the order of their IDs, from `front` on, and a heap of the others. A node that has left is
    # dropped when it comes to the front.
    line: list[NodeEntry] = field(default_factory=list)
    front: int = 0
    others: list[NodeEntry] = field(default_factory=list)
    # The group that a node of this one is in after an allocation of the demand.
    next_groups: dict[Demand, NodeGroup] = field(default_factory=dict)
    # One node began the group and is in it, no other ever was, and no `next_groups` leads to it.
    lone: bool = True
    # The place in the tree of groups (`Listed`): by score, then by a node ID that is the first of the group or was.
    rank: Rank | None = None
    # The available amounts; hidden while the group is empty.
    room: Vector = HIDDEN

    def add(self, node: NodeEntry) -> bool:
        """Add a node that has this group. Returns whether it may be the first of the group now."""
        self.size += 1
        line = self.line
        if self.size == 1:
            line.append(node)
            return True
        self.lone = False
        if len(line) - self.front + len(self.others) > 2 * self.size + LEFTOVERS:
            heappush(self.others, node)
            self._tidy()
            return True
        if line and line[-1].id < node.id:
            line.append(node)
            return False
        heappush(self.others, node)
        return self.others[0] is node

    def nodes(self) -> Iterator[NodeEntry]:
        """All of its nodes, some of them perhaps twice."""
        return (node for node in chain(islice(self.line, self.front, None), self.others) if node.group is self)

    def hide(self) -> None:
        """Hide the group, whose last node has left."""
        self.room = HIDDEN
        self.lone = False
        self.line.clear()
        self.others.clear()
        self.front = 0

    def _tidy(self) -> None:
        there = {node for node in (*self.line[self.front :], *self.others) if node.group is self}
        self.line, self.front, self.others = sorted(there, key=_BY_ID), 0, []

    def first(self) -> NodeEntry:
        """The node with the smallest ID. The group must not be empty."""
        line, front, others = self.line, self.front, self.others
        end = len(line)
        while front < end and line[front].group is not self:
            front += 1
        if front > 64 and 2 * front > end:
            del line[:front]
            end -= front
            front = 0
        self.front = front
        if others:
            while others and others[0].group is not self:
                heappop(others)
            if others and (front == end or others[0].id < line[front].id):
                return others[0]
        return line[front]

    def first_accepted(self, accepted: Container[str]) -> tuple[NodeEntry | None, int]:
        """The node with the smallest ID that is accepted, and how many nodes were looked at."""
        looked_at, of_line = len(self.others), None
        for node in islice(self.line, self.front, None):
            looked_at += 1
            if node.group is self and node.id in accepted:
                of_line = node
                break
        of_others = min((n for n in self.others if n.group is self and n.id in accepted), default=None)
        if of_line is None or (of_others is not None and of_others < of_line):
            return of_others, looked_at
        return of_line, looked_at

    def behind(self, node_id: str) -> Iterator[NodeEntry]:
        """The nodes of the group behind this ID, in the order of IDs. A node that has left and returned may come
        twice."""
        begin = bisect_right(self.line, node_id, self.front, key=_BY_ID)
        return self._in_order(islice(self.line, begin, None), (n for n in self.others if n.id > node_id))

    def up_to(self, node_id: str) -> Iterator[NodeEntry]:
        """The nodes of the group up to this ID, as `behind`."""
        end = bisect_right(self.line, node_id, self.front, key=_BY_ID)
        return self._in_order(islice(self.line, self.front, end), (n for n in self.others if n.id <= node_id))

    def _in_order(self, of_line: Iterator[NodeEntry], of_others: Iterator[NodeEntry]) -> Iterator[NodeEntry]:
        others = sorted(of_others)
        return (node for node in (merge(of_line, others) if others else of_line) if node.group is self)

    def first_but(self, refused: Container[str]) -> NodeEntry | None:
        """The node with the smallest ID that is not among the refused. Nodes that have left are cleared away where they
        have become many: they may stand behind refused ones that stay."""
        gone = len(self.line) - self.front + len(self.others) - self.size
        if gone > LEFTOVERS + self.size // 8 or len(self.others) > LEFTOVERS + len(self.line) // 4:
            self._tidy()
        fine = (n for n in islice(self.line, self.front, None) if n.group is self and n.id not in refused)
        of_line = next(fine, None)
        self.others.sort(key=_BY_ID)  # mostly it is in order, and what is in order is a heap
        of_others = next((n for n in self.others if n.group is self and n.id not in refused), None)
        if of_line is None or (of_others is not None and of_others < of_line):
            return of_others
        return of_line
