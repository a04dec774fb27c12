"""Find the best node where small work goes to racks that are broken already (semantics section 21, `pack: topology`).

    Part           the nodes of a domain of the finest level that are in use, or that are empty, by their score
    PackedNodes    the node index of a partition that packs by its topology

Nodes in use come before empty ones; then nodes of racks and blocks that are in use; then those of the rack with the
fewest empty nodes. So there are two parts of each rack, in one tree of all parts, and as many again of nodes that are
avoided. A node that changes moves within its
rack, and a rack whose empty nodes change moves as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from ..state import Node, Partition
from .domains import Domain, Standing
from .node_groups import Demand, NodeEntry, NodeGroup
from .nodes import NodeIndex
from .ordered import HIDDEN, Rank, Vector, covers
from .trees import FitTree, PassBudget


@dataclass(slots=True, eq=False)
class PackedNode:
    """A node in a part. `listed`: the part; None: nothing may be placed on the node, or it is not known yet."""

    entry: NodeEntry
    room: Vector = HIDDEN
    rank: Rank | None = None
    listed: Part | None = None
    domain: Domain | None = None
    # What its domains count of it: whether it is in use, and whether it is empty and takes new allocations.
    used: bool = False
    whole: bool = False


@dataclass(slots=True, eq=False)
class Part:
    """`room`: at least what each node has available, for the tree of all parts."""

    domain: Domain
    empty: bool
    avoided: bool
    tree: FitTree[PackedNode]
    nodes: dict[PackedNode, None] = field(default_factory=dict)
    room: Vector = HIDDEN
    rank: Rank | None = None


class PackedNodes(NodeIndex):
    """The nodes of a partition that packs by its topology. Groups of nodes are kept as elsewhere."""

    def __init__(self, partition: Partition, names: dict[str, int], budget: PassBudget, spare: int = 0) -> None:
        super().__init__(partition, names, budget, spare)
        self._budget = budget
        # Of each node its domains. `Groups` sets it.
        self.standing: Mapping[NodeEntry, Standing] = {}
        self.packed: dict[NodeEntry, PackedNode] = {}
        # By domain, whether its nodes are empty, and whether they are avoided.
        self.parts: dict[tuple[Domain, bool, bool], Part] = {}
        self.tree: FitTree[Part] = FitTree(self.width, budget)
        # How many nodes are in use, in each domain; how many are empty, in each domain of the finest level.
        self.used: dict[Domain, int] = {}
        self.whole: dict[Domain, int] = {}
        self._dirty: dict[NodeEntry, None] = {}
        self._dirty_domains: dict[Domain, None] = {}

    # Changes of nodes

    def _move(self, entry: NodeEntry, group: NodeGroup | None) -> bool:
        self._dirty[entry] = None
        return super()._move(entry, group)

    def _reorder(self, group: NodeGroup, node: NodeEntry) -> None:
        self._dirty[node] = None
        super()._reorder(group, node)

    def place(self, node: Node) -> NodeGroup | None:
        """Places the node as the base class does. The node may be in another domain."""
        self._dirty[self._entry(node)] = None
        return super().place(node)

    def fill(self, nodes: Iterable[Node]) -> Iterator[None]:
        for _ in super().fill(nodes):
            yield
        self._dirty = dict.fromkeys(self._entries.values())

    def settle(self) -> None:
        """Take in the nodes that have changed. O(levels + log n) for each; where a domain begins or ceases to be in
        use, O(domains of the finest level in it * log n)."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        for entry in dirty:
            standing = self.standing.get(entry)
            packed = self.packed.get(entry)
            if packed is None:
                packed = self.packed[entry] = PackedNode(entry)
            domain = standing.chain[-2] if standing is not None else None
            if packed.domain is not domain:
                self._leave(packed)
                packed.domain = domain
            if standing is None:
                del self.packed[entry]
            else:
                self._update(packed, domain, entry)
        for one in self._dirty_domains:
            for empty, avoided in product((False, True), repeat=2):
                part = self.parts.get((one, empty, avoided))
                if part is not None:
                    self._list(part)
        self._dirty_domains = {}

    def _leave(self, packed: PackedNode) -> None:
        """The node is in its domain no more."""
        self._count(packed, used=False, whole=False)
        self._unlist(packed)

    def _unlist(self, packed: PackedNode) -> None:
        part = packed.listed
        if part is not None:
            part.tree.remove(packed)
            packed.room, packed.rank, packed.listed = HIDDEN, None, None
            del part.nodes[packed]
            if not part.nodes:
                self.tree.remove(part)
                del self.parts[part.domain, part.empty, part.avoided]

    def _update(self, packed: PackedNode, domain: Domain | None, entry: NodeEntry) -> None:
        assert domain is not None, "each node is in the domain of all nodes"
        used, group = any(entry.node.allocated.values()), entry.group
        self._count(packed, used=used, whole=not used and group is not None)
        part = self._part(domain, not used, entry.avoided) if group is not None else None
        if part is not packed.listed:
            self._unlist(packed)
        if part is None or group is None:
            return
        packed.room, packed.listed = group.available, part
        part.nodes[packed] = None
        part.tree.move(packed, (group.score, entry.id))
        room = tuple(map(max, part.room, packed.room)) if part.room is not HIDDEN else packed.room
        if room != part.room or part.rank is None:
            part.room = room
            self._list(part)

    def _part(self, domain: Domain, empty: bool, avoided: bool) -> Part:
        part = self.parts.get((domain, empty, avoided))
        if part is None:
            tree: FitTree[PackedNode] = FitTree(self.width, self._budget)
            part = self.parts[domain, empty, avoided] = Part(domain, empty, avoided, tree)
        return part

    def _list(self, part: Part) -> None:
        self.tree.move(part, self.rank_of_part(part))

    def rank_of_part(self, part: Part) -> Rank:
        """Nodes that are avoided last. Nodes in use first; then domains in use, the finest level first; then those with
        the fewest empty nodes."""
        unused = []
        one: Domain | None = part.domain
        while one is not None:
            unused.append(one not in self.used)
            one = one.parent
        return (part.avoided, part.empty, tuple(unused), self.whole.get(part.domain, 0), part.domain.path)

    def _count(self, packed: PackedNode, *, used: bool, whole: bool) -> None:
        domain = packed.domain
        if domain is None:
            return
        if used != packed.used:
            self._count_used(domain, 1 if used else -1)
        if whole != packed.whole:
            _add(self.whole, domain, 1 if whole else -1)
            self._dirty_domains[domain] = None
        packed.used, packed.whole = used, whole

    def _count_used(self, domain: Domain, more: int) -> None:
        one: Domain | None = domain
        while one is not None:
            was = one in self.used
            _add(self.used, one, more)
            if was != (one in self.used):
                self._dirty_domains.update(dict.fromkeys(_down_to_hosts(one)))
            one = one.parent

    # The best node of a demand

    def best(self, demand: Demand) -> Node | None:
        if demand.required_node:
            return super().best(demand)
        self.settle()
        start: Rank = ()
        while (part := self.tree.first(demand.need, start)) is not None:
            assert part.rank is not None, "what was found is listed"
            within: Rank = ()
            fits = False
            while (packed := part.tree.first(demand.need, within)) is not None:
                fits = True
                if not (demand.node_specific and demand.avoids(packed.entry.id)):
                    return packed.entry.node
                assert packed.rank is not None, "what was found is listed"
                within = (*packed.rank, 0)  # right behind it
            start = (*part.rank, 0)
            if not fits:
                part.room = tuple(map(max, zip(*(one.room for one in part.nodes), strict=True)))
                self._budget.left -= len(part.nodes) // 8
                self._list(part)
        return None

    def lost(self) -> list[str]:
        """Nodes that are not listed by what they are, for `check`."""
        self.settle()
        found = super().lost()
        for entry, packed in self.packed.items():
            used = any(entry.node.allocated.values())
            right = packed.listed is None if entry.group is None else packed.listed is not None
            if packed.listed is not None and entry.group is not None:
                part = packed.listed
                right = packed.room == entry.group.available and covers(part.room, packed.room)
                right = right and packed.rank == (entry.group.score, entry.id) and part.empty == (not used)
                right = right and part.rank == self.rank_of_part(part) and part.avoided == entry.avoided
                right = right and part.domain is self.standing[entry].chain[-2]
            if not right:
                found.append(entry.id)
        return found


def _down_to_hosts(domain: Domain) -> Iterator[Domain]:
    """The domain and all domains in it, without hosts."""
    yield domain
    for child in domain.children.values():
        if child.path[0] is not None:
            yield from _down_to_hosts(child)


def _add(counts: dict[Domain, int], domain: Domain, more: int) -> None:
    left = counts.get(domain, 0) + more
    if left:
        counts[domain] = left
    else:
        del counts[domain]
