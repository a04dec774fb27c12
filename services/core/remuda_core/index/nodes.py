"""Where is best: the schedulable nodes of a partition, by their score under the node sort policy (semantics section
10).

Nodes that are the same to the rules, of one capacity and with the same available, form a **node group**: one score, one
answer to "does it fit". An allocation moves a node from one group to the next, and a group remembers where a demand
leads, so thousands of like nodes cost little more than one. A **demand** is what asks want of a node, the same for
thousands of asks. The groups stand in a FitList by score; the best for a demand is the first that has room for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter, sub
from typing import Protocol

from ..limits import LEFTOVERS, NODE_GROUPS_KEPT, WAYS_KEPT
from ..rules.resource import Items, Resource
from ..state import Node, Partition
from .fit_list import HIDDEN, FitList, Rank, Vector, covers
from .scores import score_of

# A rank behind all others.
LAST: Rank = (float("inf"),)
# How many changes a demand catches up with; beyond that it looks from the start.
WORTH_LOOKING_BACK = 128


class Closed(Protocol):
    """What is out of the way until a demand may be placed again."""

    def reopen(self) -> None: ...


class Demand:
    """What an ask wants of a node: the same for thousands of asks. `open`: some node may fit; closed once none did,
    until one gains room. `reserving`: closed, and its asks may reserve nodes. `live`: one of the two."""

    __slots__ = (
        "aged",
        "ask_classes",
        "choosy",
        "closed_ask_classes",
        "closed_in",
        "group",
        "items",
        "live",
        "need",
        "negated",
        "number",
        "open",
        "possible",
        "rank",
        "refused",
        "required_node",
        "reserved",
        "reserving",
        "resource",
        "room",
        "runner_up",
        "seen",
        "start",
        "ways",
        "weight",
        "writings",
    )

    def __init__(
        self, resource: Resource, items: Items, required_node: str, refused: frozenset[str], need: Vector, weight: int,
        number: int = 0,
    ) -> None:  # fmt: skip
        """`refused`: IDs of the nodes that the RM does not want for it."""
        self.resource = resource
        self.items = items
        self.required_node = required_node
        self.refused = refused
        self.choosy = bool(required_node or refused)  # one node is not like another
        self.need = need
        self.weight = weight  # of one ask, among all that is pending
        self.negated: Vector = tuple(-amount for amount in need)
        self.number = number
        self.open = self.live = True
        self.reserving = False
        # The list of closed demands it is in, and its place there.
        self.closed_in: FitList[Demand] | None = None
        self.room: Vector = self.negated
        self.rank: Rank | None = None
        # Nodes reserved for its asks; and how many of its ask classes have waited long enough to reserve one.
        self.reserved: dict[Node, None] = {}
        self.aged = 0
        self.possible = True  # False: it names a resource that no node has
        self.ask_classes = 0  # ask classes with pending asks of this demand
        self.closed_ask_classes: dict[Closed, None] = {}
        # No group before `start` had room when so many had been filled.
        self.start: Rank = ()
        self.seen = 0
        # The group found then, if no other had its score; and the one that is the best when that is used up.
        self.group: NodeGroup | None = None
        self.runner_up: NodeGroup | None = None
        self.ways: list[NodeGroup] = []  # groups that remember where it leads
        self.writings: list[tuple[object, ...]] = []  # keys under which the index finds it

    def next_best(self) -> NodeGroup | None:
        """The best group is used up: which is the best now. None if that takes a search."""
        group, self.runner_up = self.runner_up, None
        self.group = group if group is not None and group.size else None
        if self.group is not None and self.group.rank is not None:
            self.start = self.group.rank
        return self.group

    def joined(self, group: NodeGroup) -> None:
        """The only change since the last search: this group has a first node, by an allocation of this demand."""
        rank, best = group.rank, self.start[0]
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
            self.start = min(self.start, rank)


_BY_ID = attrgetter("id")


class NodeEntry:
    """What the index keeps of a node: the group it is in; None: nothing may be placed on it."""

    __slots__ = ("group", "id", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.id = node.id
        self.group: NodeGroup | None = None

    def __lt__(self, other: NodeEntry) -> bool:
        return self.id < other.id


class NodeGroup:
    """Its nodes by ID. Most come in that order and wait in a plain line; the others in a heap. Who left is found out at
    the front."""

    __slots__ = ("after", "available", "capacity", "front", "line", "number", "others", "rank", "room", "score", "size")

    def __init__(self, number: int, capacity: Vector, available: Vector, score: float) -> None:
        self.number = number
        self.capacity = capacity
        self.available = available
        self.score = score
        self.size = 0
        self.line: list[NodeEntry] = []
        self.front = 0
        self.others: list[NodeEntry] = []
        self.after: dict[Demand, NodeGroup] = {}  # where an allocation of a demand takes a node of this group
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

    def first_but(self, refused: frozenset[str]) -> NodeEntry | None:
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


class NodeIndex:
    def __init__(self, partition: Partition, names: dict[str, int]) -> None:
        """`names`: place of each resource in vectors; the index is built anew when one is added."""
        self._nodes = partition.nodes
        self._entries: dict[str, NodeEntry] = {}
        self._names = names
        settings = partition.settings
        self._weights = tuple(
            (names[name], weight) for name, weight in sorted(settings.resource_weights.items()) if weight > 0
        )
        self._score = score_of(settings.node_sort)
        self._groups: dict[tuple[Vector, Vector], NodeGroup] = {}
        self._numbers = 0
        self._ways = 0  # from a group to another
        self._order: FitList[NodeGroup] = FitList(len(names))
        # The groups that were last filled, or got another first node, and how many there ever were.
        self._filled: list[NodeGroup] = []
        self._filled_ever = 1
        for node in sorted(partition.nodes.values(), key=lambda node: node.id):
            self.place(node)

    # Which group a node is in

    def vector(self, resource: Resource) -> Vector:
        """Amounts in the order of the names; a name that is not there counts 0."""
        return tuple(resource.get(name, 0) for name in self._names)

    def place(self, node: Node) -> NodeGroup | None:
        """Put the node where its capacity, available and state say; None if nothing may be placed on it."""
        group = self._group(self.vector(node.capacity), self.vector(node.available())) if node.candidate else None
        self._move(self._entry(node), group)
        return group

    def withdraw(self, node: Node) -> None:
        """Nothing is placed on it any more."""
        self._move(self._entry(node), None)

    def remove(self, node: Node) -> None:
        """It is not there any more."""
        entry = self._entries.pop(node.id, None)
        if entry is not None:
            self._move(entry, None)

    def group_of(self, node: Node) -> NodeGroup | None:
        entry = self._entries.get(node.id)
        return entry.group if entry is not None else None

    def _entry(self, node: Node) -> NodeEntry:
        entry = self._entries.get(node.id)
        if entry is None:
            entry = self._entries[node.id] = NodeEntry(node)
        return entry

    def book(self, node_id: str, demand: Demand) -> None:
        """An allocation of this demand was made on the node. A demand that knew its best group still does: either that
        one, or the one the node is in now, which then is the only one so far in front that has room."""
        entry = self._entries[node_id]
        group = entry.group
        if group is None:
            return
        after = group.after.get(demand)
        if after is None:
            after = self._group(group.capacity, tuple(map(sub, group.available, demand.need)))
            if not demand.refused:  # of those there may be any number, and they do not last
                group.after[demand] = after
                demand.ways.append(group)
                self._ways += 1
                if self._ways > 8 * len(self._nodes) + WAYS_KEPT:
                    self._forget_ways()
        group.size -= 1  # move(), without the call
        if not group.size:
            group.hide()
        entry.group = after
        if after.add(entry):
            up_to_date = demand.seen == self._filled_ever
            self._begun(after, entry)
            if up_to_date:
                demand.seen = self._filled_ever
                demand.joined(after)

    def _move(self, entry: NodeEntry, group: NodeGroup | None) -> None:
        left = entry.group
        if left is not None:
            left.size -= 1
            if not left.size:
                left.hide()
        entry.group = group
        if group is not None and group.add(entry):
            self._begun(group, entry)

    def _begun(self, group: NodeGroup, node: NodeEntry) -> None:
        """The group has another first node."""
        self._filled.append(group)
        self._filled_ever += 1
        if len(self._filled) > 2 * WORTH_LOOKING_BACK:
            del self._filled[:WORTH_LOOKING_BACK]
        group.room = group.available
        rank = group.rank
        if rank is None or node.id < rank[1]:
            self._order.remove(group)
            self._order.put(group, (group.score, node.id, group.number))

    # Where a demand goes

    def best(self, demand: Demand) -> Node | None:
        """The node on which the demand is placed: the best score, then the smallest ID, of those it fits."""
        if demand.choosy:
            return self._best_but_refused(demand)
        if demand.seen == self._filled_ever:
            best = demand.group
            if best is not None and not best.size:
                best = demand.next_best()
            if best is not None:
                return best.first().node  # nothing better came
        order, need = self._order, demand.need
        start = demand.start if demand.seen == self._filled_ever else self._start(demand)
        while (group := order.first(need, start)) is not None:
            node, rank, tied = group.first(), group.rank, order.tied()
            assert rank is not None, "what was found is listed"
            if not tied or node.id == rank[1]:
                demand.start = rank
                demand.group, demand.runner_up = None if tied else group, None
                return node.node
            order.remove(group)  # its first node is another by now, and another group has the same score
            order.put(group, (group.score, node.id, group.number))
        demand.start, demand.group, demand.runner_up = LAST, None, None
        return None

    def _best_but_refused(self, demand: Demand) -> Node | None:
        """Of a demand that wants one node, or does not want some."""
        if demand.required_node:
            node = self._nodes.get(demand.required_node)
            if node is None or node.reservation is not None or not node.takes(node.id) or node.id in demand.refused:
                return None
            group = self.group_of(node)
            available = group.available if group is not None else self.vector(node.available())
            return node if covers(available, demand.need) else None
        best: NodeEntry | None = None
        order, best_score = self._order, 0.0
        start: Rank = ()
        while (group := order.first(demand.need, start)) is not None:
            rank = group.rank
            assert rank is not None, "what was found is listed"
            if best is not None and (best_score, best.id) <= rank[:2]:
                break  # no group from here on begins with a smaller ID
            if (first := group.first()).id != rank[1]:  # its first node is another by now
                order.remove(group)
                order.put(group, (group.score, first.id, group.number))
                continue
            fine = group.first_but(demand.refused)
            if fine is not None and (best is None or fine.id < best.id):
                best, best_score = fine, group.score
            start = (*rank, 0)  # right behind it
        return best.node if best is not None else None

    def _start(self, demand: Demand) -> Rank:
        """Where to look for room: nothing before it has any. That was so when the demand was last looked for; since
        then only groups that were filled can have changed it."""
        behind = self._filled_ever - demand.seen
        demand.seen = self._filled_ever
        if behind > len(self._filled):
            return ()
        start, need = demand.start, demand.need
        for group in self._filled[-behind:]:
            if group.rank is not None and group.rank < start and covers(group.room, need):
                start = group.rank
        return start

    def closest(self, demand: Demand) -> tuple[Node | None, int]:
        """The candidate that lacks least of what the demand wants, of those large enough for it; among equals the one
        that would be chosen first. And how many groups were looked at."""
        best: tuple[float, float, str] | None = None
        found: Node | None = None
        empty = 0
        for group in self._groups.values():
            if not group.size:
                empty += 1
            elif covers(group.capacity, demand.need):
                lacking = _lacking(group.available, demand.need)
                if best is None or (lacking, group.score) <= best[:2]:
                    node = group.first_but(demand.refused) if demand.refused else group.first()
                    if node is not None and (best is None or (lacking, group.score, node.id) < best):
                        best, found = (lacking, group.score, node.id), node.node
        looked_at = len(self._groups)
        if empty > 64 and 2 * empty > looked_at:
            self._trim()
        return found, looked_at

    def one_of_each(self, refused: frozenset[str]) -> Iterator[Node]:
        """Of nodes that are the same to the rules, the one with the smallest ID that is not refused; none that takes
        nothing new."""
        for group in self._groups.values():
            if group.size:
                node = group.first_but(refused) if refused else group.first()
                if node is not None:
                    yield node.node

    # Keeping it small

    def forget(self, demand: Demand) -> None:
        """Nobody wants that any more."""
        for group in demand.ways:
            group.after.pop(demand, None)
        self._ways -= len(demand.ways)
        demand.ways.clear()

    def _trim(self) -> None:
        """Forget groups that are empty, and the ways to them."""
        self._forget_ways()
        for group in self._groups.values():
            if not group.size:
                self._order.remove(group)
        self._groups = {key: group for key, group in self._groups.items() if group.size}

    def _forget_ways(self) -> None:
        for group in self._groups.values():
            for demand in group.after:
                demand.ways.clear()
            group.after.clear()
        self._ways = 0

    def _group(self, capacity: Vector, available: Vector) -> NodeGroup:
        key = (capacity, available)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) > 4 * len(self._nodes) + NODE_GROUPS_KEPT:
                self._trim()
            self._numbers += 1
            group = self._groups[key] = NodeGroup(
                self._numbers, capacity, available, self._score(capacity, available, self._weights)
            )
        return group

    def groups(self) -> dict[tuple[Vector, Vector], set[str]]:
        """Which nodes are the same, for `check`."""
        return {
            key: {n.id for n in (*group.line, *group.others) if n.group is group}
            for key, group in self._groups.items()
            if group.size
        }


def _lacking(available: Vector, need: Vector) -> float:
    """The sum, over what is needed, of the part that is not there."""
    pairs = [(have, want) for have, want in zip(available, need, strict=True) if want > have]
    return sum((want - max(have, 0)) / want if want else 1.0 for have, want in pairs)
