"""Groups of nodes that are the same to the rules, and demands: what asks want of a node.

`NodeIndex` assigns nodes to groups, and finds the best group for a demand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator
from heapq import heappop, heappush, merge
from itertools import islice
from operator import attrgetter
from typing import Protocol

from ..limits import LEFTOVERS
from ..rules.resource import Items, Resource
from ..state import NO_NODES, Node, PredicateClass, Refusals
from .fit_list import HIDDEN, FitList, Rank, Vector, covers


class SetAside(Protocol):
    """An ask class whose first ask may not reserve a node yet, or that a search has passed over."""

    def consider(self) -> None: ...


class Demand:
    """The requirements of asks on a node; thousands of asks share a demand. It is in one of these states:

    open         some node may fit it
    reserving    no node fits it, and its asks may reserve nodes
    closed       no node fits it, until one gains room; `ReservingDemands` says why it cannot reserve

    `schedulable`: open or reserving. Not `possible`: it names a resource that no node has, and is always closed."""

    __slots__ = (
        "aged",
        "ask_classes",
        "bit",
        "changes_seen",
        "closed_list",
        "group",
        "items",
        "looked_at",
        "need",
        "negated",
        "node_specific",
        "number",
        "numbered",
        "open",
        "possible",
        "predicate_class",
        "rank",
        "refused",
        "remembering_groups",
        "required_node",
        "reserved",
        "reserving",
        "resource",
        "room",
        "runner_up",
        "schedulable",
        "search_start",
        "set_aside",
        "spellings",
        "weight",
    )

    def __init__(
        self, resource: Resource, items: Items, required_node: str, refused: Refusals, need: Vector, weight: int,
        number: int = 0, predicate_class: PredicateClass | None = None,
    ) -> None:  # fmt: skip
        """`need`: the resource as a vector. `required_node`: ID, empty for any node. `refused`: IDs of the nodes that
        the RM refuses for it. `number`: grows with each demand. `predicate_class`: only nodes that are accepted for it
        are chosen."""
        self.resource = resource
        self.items = items
        self.required_node = required_node
        self.refused = refused
        self.predicate_class = predicate_class
        # Nodes of one group may differ for it.
        self.node_specific = bool(required_node) or refused != NO_NODES
        self.looked_at = 0  # nodes that walks have looked at since accepted ones were ranked (`accepted_nodes`)
        self.need = need
        self.weight = weight  # of one ask, among all that is pending
        self.negated: Vector = tuple(-amount for amount in need)
        self.number = number
        self.open = self.schedulable = True
        self.reserving = False
        # The list of closed demands it is in, and its place there.
        self.closed_list: FitList[Demand] | None = None
        self.room: Vector = self.negated
        self.rank: Rank | None = None
        # Nodes reserved for its asks; and how many of its ask classes have waited long enough to reserve one.
        self.reserved: dict[Node, None] = {}
        self.aged = 0
        self.possible = True  # False: it names a resource that no node has
        self.ask_classes = 0  # ask classes with pending asks of this demand
        # Those of them whose first ask may not reserve a node yet, or that a search has passed over.
        self.set_aside: dict[SetAside, None] = {}
        # Its number among demands, and the first of its bits in sets of demands (`DemandBits`).
        self.numbered = self.bit = 0
        # No group before this rank had room when the node index had seen so many changes.
        self.search_start: Rank = ()
        self.changes_seen = 0
        # The group found then, if no other had its score; and the one that is the best when that is used up.
        self.group: NodeGroup | None = None
        self.runner_up: NodeGroup | None = None
        self.remembering_groups: list[NodeGroup] = []  # groups that remember where it leads
        self.spellings: list[tuple[object, ...]] = []  # keys under which the index finds it

    def avoids(self, node_id: str) -> bool:
        """The RM refuses the node, or has to accept it first."""
        found = self.predicate_class
        return node_id in self.refused if found is None else node_id not in found.accepted

    def next_best(self) -> NodeGroup | None:
        """The best group is used up: which is the best now. None if that takes a search."""
        group, self.runner_up = self.runner_up, None
        self.group = group if group is not None and group.size else None
        if self.group is not None and self.group.rank is not None:
            self.search_start = self.group.rank
        return self.group

    def joined(self, group: NodeGroup) -> None:
        """The only change since the last search: this group has a first node, by an allocation of this demand."""
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


class NodeEntry:
    """The entry of a node in the index. `group`: the group it is in; None: it takes no asks."""

    __slots__ = ("group", "id", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.id = node.id
        self.group: NodeGroup | None = None

    def __lt__(self, other: NodeEntry) -> bool:
        return self.id < other.id


class NodeGroup:
    """The nodes of one capacity and the same obtainable and available amounts, by ID. Most are added in that order and
    are kept in a FIFO, the others in a heap. A removed node is dropped when it comes to the front."""

    __slots__ = (
        "available",
        "capacity",
        "front",
        "line",
        "lone",
        "next_groups",
        "number",
        "obtainable",
        "others",
        "rank",
        "room",
        "score",
        "size",
    )

    def __init__(self, number: int, capacity: Vector, obtainable: Vector, available: Vector, score: float) -> None:
        self.number = number
        self.capacity = capacity
        self.obtainable = obtainable
        self.available = available
        self.score = score
        self.size = 0
        self.line: list[NodeEntry] = []
        self.front = 0
        self.others: list[NodeEntry] = []
        self.next_groups: dict[Demand, NodeGroup] = {}  # where an allocation of a demand takes a node of this group
        # One node began it and is in it, and no other was; no way leads here.
        self.lone = True
        # Its place in the list of groups: by score, then by a node ID that is its first or was; hidden while it is
        # empty.
        self.rank: Rank | None = None
        self.room: Vector = HIDDEN

    def add(self, node: NodeEntry) -> bool:
        """True if it may be the first now."""
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

    def hide(self) -> None:
        """Its last node has left."""
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
        """Its nodes behind this ID, in the order of IDs. One that has left and returned may come twice."""
        begin = bisect_right(self.line, node_id, self.front, key=_BY_ID)
        return self._in_order(islice(self.line, begin, None), (n for n in self.others if n.id > node_id))

    def up_to(self, node_id: str) -> Iterator[NodeEntry]:
        """Its nodes up to this ID, as `behind`."""
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
