"""The structures of the cycle against plain sorting and looking everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.index import trees
from remuda_core.index.node_groups import Demand, NodeEntry, NodeGroup
from remuda_core.index.nodes import NodeIndex
from remuda_core.index.ordered import HIDDEN, Entry, FitList, LazyRanking, Rank, Vector, covers
from remuda_core.index.trees import FitTree, PassBudget
from remuda_core.rules.resource import items_of
from remuda_core.settings import PartitionSettings, QueueSettings
from remuda_core.state import Node, Partition, Queue

# FitList


@dataclass(eq=False)
class Item:
    wanted: Rank
    room: Vector
    rank: Rank | None = None


amounts = st.integers(0, 4)
vectors = st.tuples(amounts, amounts)
needs = st.tuples(st.integers(-1, 5), st.integers(-1, 5))


def best(items: list[Item], need: Vector) -> Item | None:
    return min((i for i in items if covers(i.room, need)), key=lambda i: i.wanted, default=None)


@given(st.integers(0, 10**9), st.sampled_from((10, 60, 400)))
def test_fit_list_finds_what_looking_everywhere_finds(seed: int, steps: int) -> None:
    """Comings, goings and new ranks; enough of them for several blocks."""
    random = Random(seed)
    order: FitList[Item] = FitList(2)
    items: list[Item] = []
    for number in range(steps):
        what = random.random()
        if what < 0.5 or not items:
            item = Item((random.choice((0, 1, random.random())), number), (random.randint(0, 4), random.randint(0, 4)))
            items.append(item)
            order.put(item, item.wanted)
            continue
        item = random.choice(items)
        if what < 0.6:
            items.remove(item)
            order.remove(item)
        elif what < 0.8:
            order.remove(item)
            item.room, item.wanted = (random.randint(0, 4), random.randint(0, 4)), (random.random(), number)
            order.put(item, item.wanted)
        else:
            need = (random.randint(-1, 5), random.randint(-1, 5))
            assert order.first(need) is best(items, need)
            start = (random.random(),)
            assert order.first(need, start) is covering(items, need, start)
        assert bool(order) == bool(items)
    for need in ((0, 0), (4, 4), (-1, -1), (2, 3), (5, 0)):
        assert order.first(need) is best(items, need)


# FitTree


def covering(items: list[Item], need: Vector, start: Rank = ()) -> Item | None:
    return best([item for item in items if item.wanted >= start], need)


@given(st.integers(0, 10**9), st.sampled_from((10, 100, 1_500)), st.sampled_from((3, 12)), st.sampled_from((2, 4)))
def test_a_fit_tree_finds_what_looking_everywhere_finds(seed: int, steps: int, most: int, width: int) -> None:
    """Enough items for several levels."""
    search_everywhere(seed, steps, most, width)


@given(st.integers(0, 10**9), st.sampled_from((3, 12)), st.sampled_from((2, 4)))
def test_a_fit_tree_with_few_bits_finds_what_looking_everywhere_finds(seed: int, most: int, width: int) -> None:
    """So few that needs take them from each other all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "NEEDS_KEPT", 6)
        patch.setattr(trees, "WORTH_RENEWING", 0.1)
        patch.setattr(trees, "MOST_CHILDREN", 8)
        search_everywhere(seed, 400, most, width)


def search_everywhere(seed: int, steps: int, most: int, width: int) -> None:
    """Comings, goings, hidings and new ranks, and needs."""
    random = Random(seed)
    order: FitTree[Item] = FitTree(width, PassBudget())
    items = [Item((0.5, -n), tuple(random.randint(-1, most) for _ in range(width))) for n in range(steps // 3)]
    for _ in order.fill([(item.wanted, item) for item in sorted(items, key=lambda item: item.wanted)]):
        pass
    comings = random.choice((0.3, 0.5))
    for number in range(steps):
        what = random.random()
        if what < comings or not items:
            room = tuple(random.randint(-1, most) for _ in range(width))
            item = Item((random.choice((0, 1, random.random())), number), room)
            items.append(item)
            order.put(item, item.wanted)
        elif what < 0.6:
            item = items.pop(random.randrange(len(items)))
            order.remove(item)
        elif what < 0.65:
            random.choice(items).room = HIDDEN
        elif what < 0.75:
            item = random.choice(items)
            item.room = tuple(random.randint(-1, most) for _ in range(width))
            item.wanted = (random.choice((0.4, 0.5, random.random())), random.choice((-number, number)) - 0.5)
            order.move(item, item.wanted)
        else:
            need = tuple(random.randint(0, most) for _ in range(width))
            start = random.choice(((), (random.random(),), random.choice(items).wanted))
            found = order.first(need, start)
            assert found is covering(items, need, start)
            if found is not None:
                listed = sorted(item.wanted for item in items if item.rank is not None and item.wanted > found.wanted)
                assert order.tied() == bool(listed and listed[0][0] == found.wanted[0])
    for item in items:
        order.remove(item)
    assert order.size == 0 and order.first((-1,) * width) is None


# LazyRanking


@dataclass(eq=False)
class Member:
    name: str
    value: int = 0
    entry: Entry | None = None
    dirty: bool = field(default=False)

    def rank(self) -> tuple[int, str]:
        return (self.value, self.name)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("enter", "leave", "change", "first", "ranks")), st.integers(0, 5), st.integers(0, 9)
        ),
        max_size=300,
    )
)
def test_lazy_ranking_is_sorting(steps: list[tuple[str, int, int]]) -> None:
    members = [Member(f"m{n}") for n in range(6)]
    ranking: LazyRanking[Member] = LazyRanking()
    inside: set[Member] = set()
    for what, which, value in steps:
        member = members[which]
        if what == "enter":
            ranking.enter(member)
            inside.add(member)
        elif what == "leave":
            ranking.leave(member)
            inside.discard(member)
        elif what == "change":
            member.value = value
            ranking.touch(member)
        elif what == "first":
            assert ranking.first() is min(inside, key=Member.rank, default=None)
        else:
            assert ranking.ranks() == {m: m.rank() for m in inside}
    assert ranking.first() is min(inside, key=Member.rank, default=None)


# Nodes


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 199)), max_size=600))
def test_a_group_gives_out_its_nodes_by_id(steps: list[tuple[bool, int]]) -> None:
    """Also after many have come, gone and come again."""
    group = NodeGroup(1, (1,), (1,), (1,), 0.0)
    nodes = [NodeEntry(Node(f"n{n:03}", {}, {}, {})) for n in range(200)]
    for comes, which in [(True, n) for n in range(100)] + steps:
        node = nodes[which]
        if comes and node.group is None:
            node.group = group
            smaller = [n for n in nodes if n.group is group and n.id < node.id]
            assert group.add(node) or smaller, "the first of a group was not noticed"
        elif not comes and node.group is group:
            node.group = None
            group.size -= 1
        inside = [n for n in nodes if n.group is group]
        assert group.size == len(inside)
        if inside:
            assert group.first() is inside[0]


def test_a_smaller_node_comes_when_the_line_is_used_up() -> None:
    group = NodeGroup(1, (1,), (1,), (1,), 0.0)
    nodes = [NodeEntry(Node(f"n{n:03}", {}, {}, {})) for n in range(200)]
    for node in (*nodes[2::2], *nodes[3:199:2]):  # these in the line, those in the heap
        node.group = group
        group.add(node)
    for node in nodes[2::2]:
        node.group = None
        group.size -= 1
    assert group.first() is nodes[3]
    nodes[0].group = group
    assert group.add(nodes[0]), "the first of a group was not noticed"
    assert group.first() is nodes[0]


class Park:
    """A partition of nodes, and bookings on them."""

    def __init__(self, node_sort: str, weights: dict[str, float], nodes: list[tuple[str, dict[str, int]]]) -> None:
        root = QueueSettings("root", parent=True)
        settings = PartitionSettings("default", root, node_sort, weights)
        queue = Queue("root", None, False, True, root)
        self.partition = Partition("default", settings, queue, {"root": queue})
        for node_id, capacity in nodes:
            self.partition.nodes[node_id] = Node(node_id, {}, capacity, {})
        self.index = NodeIndex(self.partition, {"memory": 0, "vcore": 1}, PassBudget())
        for node in self.partition.nodes.values():
            self.index.place(node)
        self.sign = -1.0 if node_sort == "binpacking" else 1.0

    def demand(self, need: dict[str, int]) -> Demand:
        return Demand(need, items_of(need), "", frozenset(), self.index.vector(need), 0)

    def score(self, node: Node) -> float:
        used = total = 0.0
        available = node.available()
        for name, weight in sorted(self.partition.settings.resource_weights.items()):
            if weight > 0 and node.capacity.get(name):
                used += weight * (1.0 - available[name] / node.capacity[name])
                total += weight
        return self.sign * used / total if total else 0.0

    def best(self, demand: Demand) -> Node | None:
        """Looking at every node."""
        fits = [
            node
            for node in self.partition.nodes.values()
            if node.schedulable and covers(self.index.vector(node.available()), demand.need)
        ]
        return min(fits, key=lambda node: (self.score(node), node.id), default=None)

    def take(self, node: Node, demand: Demand) -> None:
        for name, amount in demand.resource.items():
            node.allocated[name] += amount
        self.index.book(node.id, demand)

    def give(self, node: Node, resource: dict[str, int]) -> None:
        for name, amount in resource.items():
            node.allocated[name] -= amount
        self.index.place(node)


@pytest.mark.parametrize("node_sort", ["fair", "binpacking"])
@given(seed=st.integers(0, 10**9), sizes=st.sampled_from((1, 3, 12)), weighted=st.booleans())
def test_best_node_is_what_looking_at_every_node_finds(node_sort: str, seed: int, sizes: int, weighted: bool) -> None:
    """Few node shapes and hundreds: asks, releases, drainings."""
    random = Random(seed)
    count = random.choice((3, 20, 90))
    nodes = [(f"n{n}", {"vcore": 6 + n % sizes, "memory": 6 + (n * n) % sizes}) for n in range(count)]
    park = Park(node_sort, {"vcore": 3.0, "memory": 1.0} if weighted else {"vcore": 1.0, "memory": 1.0}, nodes)
    demands = [park.demand({"vcore": 1 + n % 3, "memory": 1 + n % 4}) for n in range(random.choice((1, 2, 12)))]
    taken: list[tuple[Node, dict[str, int]]] = []
    for _ in range(150):
        what = random.random()
        if what < 0.7:
            demand = random.choice(demands)
            node = park.index.best(demand)
            assert node is park.best(demand)
            if node is not None:
                park.take(node, demand)
                taken.append((node, dict(demand.resource)))
        elif what < 0.9 and taken:
            park.give(*taken.pop(random.randrange(len(taken))))
        else:
            node = random.choice(list(park.partition.nodes.values()))
            node.draining = not node.draining
            park.index.place(node)


def test_hundreds_of_sizes_and_nodes() -> None:
    """Every node is of its own shape and so is every ask."""
    random = Random(7)
    nodes = [
        (f"n{n}", {"vcore": 1_000 + random.randrange(1_000), "memory": 1_000 + random.randrange(1_000)})
        for n in range(300)
    ]
    park = Park("fair", {"vcore": 1.0, "memory": 1.0}, nodes)
    for _ in range(600):
        demand = park.demand({"vcore": random.randrange(1, 900), "memory": random.randrange(1, 900)})
        node = park.index.best(demand)
        assert node is park.best(demand)
        if node is not None:
            park.take(node, demand)
