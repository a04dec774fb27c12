"""Domains of nodes, and how many members of a group fit in each (semantics section 21).

    Domain    the nodes with the same path of attributes at a level; all nodes; a host
    Shape     what a member wants of a node: how many copies of it fit on each node, and in each domain
    Domains   all domains of a partition, and the shapes that are counted

Counts follow the nodes late: a node that changes is noted, and a shape takes in what has changed when it is next asked
about. So nodes that change cost nothing for shapes of which nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from remuda_proto.constants import TOPOLOGY_HOST

from ..limits import ALLOCATIONS_PER_NODE, SHAPES_COUNTED, STEPS_PER_CHANGED_NODE
from ..rules.devices import place_name
from ..rules.leaving import ALWAYS_MS
from ..rules.resource import Items, Resource
from ..rules.topology import ALL_NODES, Path, host_of, path_of
from ..settings import TopologyLevel
from ..state import Allocation, Node, Refusals
from .node_groups import Demand, NodeEntry
from .nodes import ChangedNodes, NodeIndex
from .ordered import Rank, Vector, covers
from .trees import BitTree, PassBudget

# The level of the domain of all nodes.
ALL_LEVEL = -1

# What makes members one shape: amounts, a required node, refusals; and of slices their level and size.
ShapeKey = tuple[Items, str, Refusals, int, int]


@dataclass(slots=True, eq=False)
class Domain:
    """`level`: its place from the coarsest, which is 0. `parent` None: it has all nodes."""

    path: Path
    level: int
    parent: Domain | None
    children: dict[Path, Domain] = field(default_factory=dict)
    nodes: dict[NodeEntry, None] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    allocated: dict[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """How much of what it has most of in use, in thousandths."""
        capacity = self.capacity
        return max(
            (1000 * amount // (capacity.get(name, 0) or 1) for name, amount in self.allocated.items()), default=0
        )

    def at(self, level: int) -> Iterator[Domain]:
        """The domains of a level within this one."""
        if level == self.level:
            yield self
            return
        for child in self.children.values():
            if child.level <= level:
                yield from child.at(level)

    def at_or_above(self, level: int) -> Domain:
        """This domain, or the one of the level that it is in."""
        one = self
        while one.level > level and one.parent is not None:
            one = one.parent
        return one

    def is_in(self, other: Domain) -> bool:
        one: Domain | None = self
        while one is not None and one is not other:
            one = one.parent
        return one is other


@dataclass(slots=True, eq=False)
class Standing:
    """A node in its domains: from all nodes down to the host, and the amounts that they count of it."""

    chain: tuple[Domain, ...]
    capacity: dict[str, int] = field(default_factory=dict)
    allocated: dict[str, int] = field(default_factory=dict)


class Domains:
    """The domains of a partition. A domain exists while it has nodes."""

    def __init__(self, levels: tuple[TopologyLevel, ...], nodes: NodeIndex, budget: PassBudget) -> None:
        """Empty: `node_changed` adds nodes."""
        self.levels = levels
        self.nodes = nodes
        self.budget = budget
        self.host_level = len(levels)
        self.all_nodes = Domain(ALL_NODES, ALL_LEVEL, None)
        # By level and path. The last level has the hosts.
        self.by_level: list[dict[Path, Domain]] = [{} for _ in range(len(levels) + 1)]
        self.standing: dict[NodeEntry, Standing] = {}
        self.shapes: dict[ShapeKey, Shape] = {}
        self.changed = ChangedNodes()
        self._seen = 0
        # How often nodes came, left, moved or were resized: what no domain can ever hold is known until then.
        self.layouts = 0

    # Changes of nodes

    def node_changed(self, node: Node) -> bool:
        """Follow the attributes of a node. Returns whether it is in other domains than before."""
        entry = self.nodes.entry_of(node)
        path = path_of(self.levels, node.attributes)
        known = self.standing.get(entry)
        self.changed.add(entry)
        if known is not None and known.chain[-2].path == path:
            return False
        self.layouts += 1
        if known is not None:
            self._leave(entry, known)
        chain = [self.all_nodes]
        for level in range(len(path)):
            chain.append(self._domain(path[: level + 1], level, chain[-1]))
        chain.append(self._domain(host_of(node.id), self.host_level, chain[-1]))
        self.standing[entry] = Standing(tuple(chain))
        for domain in chain:
            domain.nodes[entry] = None
        _settle(self.standing[entry], node)
        return True

    def node_removed(self, node: Node) -> None:
        entry = self.nodes.entry_of(node)
        known = self.standing.pop(entry, None)
        self.changed.remove(entry)
        if known is not None:
            self.layouts += 1
            self._leave(entry, known)

    def _domain(self, path: Path, level: int, parent: Domain) -> Domain:
        found = self.by_level[level].get(path)
        if found is None:
            found = self.by_level[level][path] = parent.children[path] = Domain(path, level, parent)
        return found

    def _leave(self, entry: NodeEntry, standing: Standing) -> None:
        for shape in self.shapes.values():
            shape.leave(entry, standing.chain)
        for domain in reversed(standing.chain):
            del domain.nodes[entry]
            _add(domain.capacity, standing.capacity, {})
            _add(domain.allocated, standing.allocated, {})
            if not domain.nodes and domain.parent is not None:
                del self.by_level[domain.level][domain.path]
                del domain.parent.children[domain.path]
        for shape in self.shapes.values():
            shape.list_again(domain for domain in standing.chain[1:] if domain.nodes)

    def settle(self) -> None:
        """Take in what is used on nodes that have changed. O(levels) for each."""
        if self._seen == self.changed.count:
            return
        for entry in self.changed.since(self._seen):
            standing, node = self.standing[entry], entry.node
            if standing.allocated != node.allocated or standing.capacity != node.capacity:
                self.layouts += standing.capacity != node.capacity
                _settle(standing, node)
                self.budget.left -= 1
        self._seen = self.changed.count

    # Queries

    def path_of(self, node: Node) -> tuple[Path, ...]:
        """The paths of the domains of a node, the coarsest first, without that of all nodes."""
        path = path_of(self.levels, node.attributes)
        return (*(path[: level + 1] for level in range(len(path))), host_of(node.id))

    def level_of(self, path: Path) -> int:
        return self.host_level if path and path[0] is None else len(path) - 1

    def name_of(self, level: int) -> str:
        """The name of a level, for people."""
        if level == ALL_LEVEL:
            return "partition"
        return self.levels[level].level if level < len(self.levels) else TOPOLOGY_HOST

    def find(self, path: Path) -> Domain | None:
        return self.all_nodes if not path else self.by_level[self.level_of(path)].get(path)

    def shape_of(self, demand: Demand, slice_level: int = -1, slice_size: int = 0) -> Shape:
        """The shape of a demand, up to date. O(nodes) if it is not counted already."""
        key = (demand.items, demand.required_node, demand.refused, slice_level, slice_size)
        shape = self.shapes.pop(key, None)
        if shape is None:
            if len(self.shapes) >= SHAPES_COUNTED:
                oldest = next(iter(self.shapes))
                self.nodes.forget(self.shapes.pop(oldest).demand)
            shape = Shape(self, demand, slice_level, slice_size)
        self.shapes[key] = shape
        shape.settle()
        return shape


def _settle(standing: Standing, node: Node) -> None:
    """Let the domains of the node count what it has and uses now."""
    for domain in standing.chain:
        _add(domain.allocated, standing.allocated, node.allocated)
        if standing.capacity != node.capacity:
            _add(domain.capacity, standing.capacity, node.capacity)
    standing.capacity, standing.allocated = dict(node.capacity), dict(node.allocated)


def _add(sums: dict[str, int], before: Resource, now: Resource) -> None:
    for name, amount in now.items():
        more = amount - before.get(name, 0)
        if more:
            sums[name] = sums.get(name, 0) + more
    for name, amount in before.items():
        if amount and name not in now:
            sums[name] -= amount


class Shape:
    """The numbers of copies of a demand that fit on nodes, and in domains. `slice_size`: so many copies have to be in
    one domain of `slice_level`; then domains of this level and above count slices, else copies."""

    def __init__(self, domains: Domains, demand: Demand, slice_level: int, slice_size: int) -> None:
        self.domains = domains
        # One of its own: that of the ask may be gone before the shape.
        self.demand = Demand(
            demand.resource, demand.items, demand.required_node, demand.refused, demand.need, 0, -1,
            demand.predicate_class, demand.on_devices,
        )  # fmt: skip
        self.slice_level, self.slice_size = slice_level, slice_size
        # The copies on each node that has room, and the rank of the node by the node sort policy.
        self.copies: dict[NodeEntry, int] = {}
        self.ranks: dict[NodeEntry, Rank] = {}
        # In each domain: copies, and what it counts.
        self.raw: dict[Domain, int] = {}
        self.counts: dict[Domain, int] = {}
        # By level, when first asked for: its domains by what they count, the tightest first. And their ranks.
        self.trees: dict[int, BitTree[Domain]] = {}
        self.listed: dict[Domain, Rank] = {}
        # Of a domain, when first asked for: its nodes with room by rank.
        self.nodes: dict[Domain, BitTree[NodeEntry]] = {}
        domains.settle()
        self.seen = domains.changed.count
        self._count_all()

    def settle(self) -> None:
        """Take in the nodes that have changed. O(levels * log n) for each."""
        self.domains.settle()
        changed, seen = self.domains.changed, self.seen
        if seen != changed.count:
            self.seen = changed.count
            for entry in changed.since(seen):
                self._update(entry, self.domains.standing[entry].chain)
                self.domains.budget.left -= STEPS_PER_CHANGED_NODE

    def _count_all(self) -> None:
        """Count what fits now. O(groups of nodes + levels * nodes with room)."""
        nodes, demand, raw = self.domains.nodes, self.demand, self.raw
        groups = list(nodes.with_room(demand.need))
        for group in groups:
            most = copies_in(nodes, demand, group.available, ALLOCATIONS_PER_NODE)
            for entry in group.nodes():
                standing = self.domains.standing.get(entry)
                if entry in self.copies or standing is None or not self.may_take(entry):
                    continue
                self.copies[entry] = copies = min(most, entry.node.allocations_left)
                self.ranks[entry] = nodes.rank_of(demand, entry, group.available)
                for domain in standing.chain:
                    raw[domain] = raw.get(domain, 0) + copies
        self.domains.budget.left -= (len(groups) + len(self.copies)) // 2
        if not self.slice_size:
            self.counts = dict(raw)
            return
        for domain, copies in raw.items():
            above: Domain | None = domain if domain.level == self.slice_level else None
            while above is not None:
                self.counts[above] = self.counts.get(above, 0) + copies // self.slice_size
                above = above.parent

    def leave(self, entry: NodeEntry, chain: tuple[Domain, ...]) -> None:
        """Follow a node that leaves its domains."""
        self._count(entry, chain, 0)
        self._rank(entry, chain, None)
        for domain in chain[1:]:
            if len(domain.nodes) == 1:  # it goes with its last node
                rank = self.listed.pop(domain, None)
                if rank is not None and domain.level in self.trees:
                    self.trees[domain.level].remove(rank)
                self.nodes.pop(domain, None)
                self.raw.pop(domain, None)
                self.counts.pop(domain, None)

    def _update(self, entry: NodeEntry, chain: tuple[Domain, ...]) -> None:
        copies = self.copies_on(entry)
        self._count(entry, chain, copies)
        group = entry.group
        rank = self.domains.nodes.rank_of(self.demand, entry, group.available) if copies and group is not None else None
        self._rank(entry, chain, rank)
        self.list_again(chain[1:])

    def list_again(self, domains: Iterable[Domain]) -> None:
        """List domains by what they count and have in use now."""
        for domain in domains:
            if domain.level in self.trees:
                self._list(domain)

    def _count(self, entry: NodeEntry, chain: tuple[Domain, ...], copies: int) -> None:
        more = copies - self.copies.pop(entry, 0)
        if copies:
            self.copies[entry] = copies
        if not more:
            return
        size, slices = self.slice_size, 0
        for domain in reversed(chain):
            had = self.raw.get(domain, 0)
            self.raw[domain] = had + more
            if size and domain.level == self.slice_level:
                slices = (had + more) // size - had // size
            self.counts[domain] = self.counts.get(domain, 0) + (slices if size else more)

    def _rank(self, entry: NodeEntry, chain: tuple[Domain, ...], rank: Rank | None) -> None:
        was = self.ranks.pop(entry, None)
        if rank is not None:
            self.ranks[entry] = rank
        if was == rank:
            return
        for domain in chain if self.nodes else ():
            tree = self.nodes.get(domain)
            if tree is not None:
                if was is not None:
                    tree.remove(was)
                if rank is not None:
                    tree.put(entry, rank, 1)

    def _list(self, domain: Domain) -> None:
        """List the domain by what it counts now; not at all if that is nothing."""
        count = self.counts.get(domain, 0)
        rank = (count, -domain.used, domain.path) if count else None
        was = self.listed.pop(domain, None)
        if rank is not None:
            self.listed[domain] = rank
        if rank != was:
            tree = self.trees[domain.level]
            if was is not None:
                tree.remove(was)
            if rank is not None:
                tree.put(domain, rank, 1)

    def copies_on(self, entry: NodeEntry) -> int:
        """The number of copies that fit on the node, one placed after the other."""
        group, demand = entry.group, self.demand
        if group is None or not covers(group.available, demand.need) or not self.may_take(entry):
            return 0
        return copies_in(self.domains.nodes, demand, group.available, entry.node.allocations_left)

    def may_take(self, entry: NodeEntry) -> bool:
        demand = self.demand
        if demand.required_node and demand.required_node != entry.id:
            return False
        return not (demand.node_specific and demand.avoids(entry.id))

    # Queries

    def count(self, domain: Domain) -> int:
        """The number of copies that fit in the domain; of slices, the number of slices."""
        return self.counts.get(domain, 0)

    def count_without(self, domain: Domain, other: Domain) -> int:
        """The number of copies, or slices, that fit in the domain without the nodes of another domain."""
        if domain.is_in(other):
            return 0
        if not other.is_in(domain):
            return self.count(domain)
        lost = self.raw.get(other, 0)
        if self.slice_size and domain.level <= self.slice_level:
            if other.level <= self.slice_level:
                lost = self.count(other)
            else:
                part = other.at_or_above(self.slice_level)
                had = self.raw.get(part, 0)
                lost = had // self.slice_size - (had - lost) // self.slice_size
        return self.count(domain) - lost

    @property
    def key_when_empty(self) -> tuple[Items, str, int, int]:
        """The properties on which `most` depends, besides nodes."""
        return (self.demand.items, self.demand.required_node, self.slice_level, self.slice_size)

    def most(self, domain: Domain) -> int:
        """The number of copies, or slices, that would fit in the domain if its nodes were empty. O(nodes of the
        domain)."""
        if self.slice_size and domain.level < self.slice_level:
            return sum(self.most(one) for one in domain.at(self.slice_level))
        nodes, demand = self.domains.nodes, self.demand
        known: dict[Vector, int] = {}
        copies = 0
        for entry in domain.nodes:
            if demand.required_node in ("", entry.id):
                empty = _empty(nodes, entry.node)
                if empty not in known:
                    known[empty] = copies_in(nodes, demand, empty, ALLOCATIONS_PER_NODE)
                copies += known[empty]
        return copies // self.slice_size if self.slice_size and domain.level == self.slice_level else copies

    def fits(self, level: int, count: int, scope: Domain) -> bool:
        """Whether one domain of the level within `scope` has room for `count` copies or slices."""
        return next(self.tightest(level, count, scope), None) is not None

    def tightest(self, level: int, count: int, scope: Domain) -> Iterator[Domain]:
        """The domains of the level within `scope` that have room for so many: the one with the least room first, then
        the one that is used most, then by path. O(log n) each for domains of all nodes, else O(domains in `scope`)."""
        if level == scope.level:
            if self.count(scope) >= count:
                yield scope
            return
        if scope.level != ALL_LEVEL:
            inside = [domain for domain in scope.at(level) if self.count(domain) >= count]
            self.domains.budget.left -= len(inside) // 8
            yield from sorted(inside, key=lambda one: (self.count(one), -one.used, one.path))
            return
        tree = self.trees.get(level)
        if tree is None:
            tree = self.trees[level] = BitTree(self.domains.budget)
            some = [domain for domain, room in self.counts.items() if room and domain.level == level]
            for domain in some:
                self._list(domain)
            self.domains.budget.left -= 2 * len(some)
        start: Rank = (count,)
        while (found := tree.first(1, start)) is not None:
            yield found
            start = (*self.listed[found], 0)  # right behind it

    def best_in(self, domain: Domain) -> NodeEntry | None:
        """The best node of the domain by the node sort policy. O(log n), and O(nodes of the domain) at first."""
        tree = self.nodes.get(domain)
        if tree is None:
            tree = self.nodes[domain] = BitTree(self.domains.budget)
            for entry in domain.nodes:
                if entry in self.ranks:
                    tree.put(entry, self.ranks[entry], 1)
        return tree.first(1)


def copies_in(nodes: NodeIndex, demand: Demand, available: Vector, most: int) -> int:
    """The number of copies of the demand that fit where so much is available, at most `most`."""
    if not demand.on_devices:
        lasting = nodes.lasting  # of which no copy takes anything
        if not covers(available[lasting], demand.need[lasting]):
            return 0
        wanted = enumerate(zip(available, demand.need, strict=True))
        times = range(lasting.start, lasting.stop)
        fits = (int(have // want) for place, (have, want) in wanted if want > 0 and place not in times)
        return max(0, min(most, min(fits, default=most)))
    copies = 0
    while copies < most and covers(available, demand.need):
        available = nodes.after(demand, available)
        copies += 1
    return copies


def _empty(nodes: NodeIndex, node: Node) -> Vector:
    """The amounts that are available on a node without allocations, and without what others than allocations take."""
    places = {
        place_name(resource, place): devices.unit
        for resource, devices in node.devices.items()
        for place in range(1, len(devices.room) + 1)
    }
    return nodes.vector({**node.capacity, **places, **dict.fromkeys(nodes.audiences, ALWAYS_MS)})


def copies_when_empty(nodes: NodeIndex, shape: Shape, entry: NodeEntry) -> int:
    """The number of copies of the shape that the node would take if all allocations had left, also one that takes no
    asks now."""
    node = entry.node
    if not shape.may_take(entry):
        return 0
    devices: dict[str, int] = {}
    for resource, each in node.devices.items():
        for place, amount in enumerate(sorted(each.room.values(), reverse=True), start=1):
            devices[place_name(resource, place)] = amount
    for_ever = dict.fromkeys(nodes.audiences, ALWAYS_MS)
    return copies_in(
        nodes, shape.demand, nodes.vector({**nodes_left(node), **devices, **for_ever}), ALLOCATIONS_PER_NODE
    )


def nodes_left(node: Node) -> dict[str, int]:
    """The capacity of the node without what others than allocations take."""
    return {name: amount - node.occupied.get(name, 0) for name, amount in node.capacity.items()}


# What is available on nodes, and how many more allocations they may have.
Free = dict[NodeEntry, tuple[Vector, int]]


def free_nodes(
    nodes: NodeIndex, entries: Iterable[NodeEntry], leaving: Mapping[NodeEntry, Sequence[Allocation]] | None = None
) -> Free:
    """The amounts that are free on these nodes, which may be kept for other asks, once some allocations have left."""
    gone = leaving or {}
    return {
        entry: (
            nodes.available_without(entry.node, gone.get(entry, ())),
            entry.node.allocations_left + len(gone.get(entry, ())),
        )
        for entry in entries
    }


def placed_one_by_one(nodes: NodeIndex, on: Free, members: Iterable[tuple[Shape, int]]) -> list[list[NodeEntry]] | None:
    """The nodes, of these, for members of several shapes, placed one after the other by the node sort policy, in the
    order of shapes; for each shape one node for each member. None if one of them finds no node. O(nodes *
    members)."""
    free = {entry: available for entry, (available, _) in on.items()}
    left = {entry: allocations for entry, (_, allocations) in on.items()}
    found: list[list[NodeEntry]] = []
    for shape, count in members:
        demand, chosen = shape.demand, list[NodeEntry]()
        ranks = {
            entry: nodes.rank_of(demand, entry, available)
            for entry, available in free.items()
            if left[entry] > 0 and covers(available, demand.need) and shape.may_take(entry)
        }
        for _ in range(count):
            if not ranks:
                return None
            best = min(ranks, key=ranks.__getitem__)
            chosen.append(best)
            free[best] = nodes.after(demand, free[best])
            left[best] -= 1
            if left[best] > 0 and covers(free[best], demand.need):
                ranks[best] = nodes.rank_of(demand, best, free[best])
            else:
                del ranks[best]
        found.append(chosen)
    return found
