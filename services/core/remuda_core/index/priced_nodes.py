"""Find the best node under the node sort policy `fragmentation`: the one with the place of lowest price.

    PlaceTrees     trees of nodes: of all, and of those that are accepted for a predicate class
    PricedNodes    the node index of a partition with prices

The price of a place depends on the ask, on what is free on its device (the *level*), and on whether the node's CPU is
short (its *slack*), but on nothing else. So there is a tree of nodes for each level that some device has, in the order
in which ties are broken, and one of all nodes. A demand has a list of levels and least slacks by price; the first tree
with a node that covers both has the best node. A tree in which nothing was found is not searched again before a node
has gained room there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter, sub
from typing import Any, Final

from ..limits import LEFTOVERS, RANKED_NODES_KEPT
from ..rules.devices import DeviceNeed, is_place
from ..rules.prices import CPU, MUCH, Prices, is_share, prices_in_order
from ..state import Node, Partition, PredicateClass
from .devices import places_in
from .node_groups import Demand, NodeEntry, NodeGroup
from .nodes import ChangedNodes, NodeIndex
from .ordered import HIDDEN, Rank, Vector, covers
from .trees import FitTree, PassBudget

# These stand for two more trees among those of levels: one of all nodes, and one for demands of several devices, in
# which the amounts of all devices are. It is made when there is such a demand.
ALL: Final = -1
SEVERAL: Final = -2

# The first part of the rank of a node: those without devices, those with devices, then the same of avoided ones.
AVOIDED: Final = 2


@dataclass(slots=True, eq=False)
class Place:
    """A node in one of the trees. `room`: what is available there, and behind it the slack of which the tree was told.
    `slack`: what it is."""

    node: NodeEntry
    room: Vector = HIDDEN
    rank: Rank | None = None
    slack: int = 0


class Places:
    """A tree of nodes. It is told of more slack than a node has, by a `margin`: then a little more changes nothing
    there. `gained`: how often a node has gained room or slack here."""

    def __init__(self, width: int, budget: PassBudget, margin: int) -> None:
        self.tree: FitTree[Place] = FitTree(width, budget)
        self.gained, self.margin = 0, margin

    def update(self, place: Place, rank: Rank, amounts: Vector, slack: int) -> None:
        told = place.room[-1]
        if place.room is HIDDEN or slack > told or not covers(place.room, amounts):
            place.room = (*amounts, slack + self.margin)
            self.tree.move(place, rank)
            self.gained += 1
        else:
            place.room = (*amounts, told)
            self.gained += slack > place.slack
        place.slack = slack

    def first(self, need: Vector, start: Rank = ()) -> Place | None:
        """The first node, from `start` on, that covers the need."""
        slack = need[-1]
        while (place := self.tree.first(need, start)) is not None and place.slack < slack:
            assert place.rank is not None, "what was found is listed"
            place.room = (*place.room[:-1], place.slack)
            self.tree.move(place, place.rank)
        return place


@dataclass(slots=True, eq=False)
class Spots:
    """The places of a node, by level."""

    rank: Rank
    places: dict[int, Place] = field(default_factory=dict)


# Where a demand looks: steps of the price, the level, and what the place needs.
Look = tuple[int, int, Vector]


@dataclass(slots=True, eq=False)
class Plan:
    """The looks of a demand, the lowest price first. `levels`: how many levels there were when it was made. `failed`:
    for each look in which nothing was found, how often nodes had gained room in the tree then."""

    levels: int
    looks: list[Look]
    failed: list[int]


class PlaceTrees:
    """The trees of some nodes of a partition."""

    def __init__(
        self, prices: Prices, names: dict[str, int], width: int, order: Callable[[NodeEntry], int], budget: PassBudget
    ) -> None:
        """Empty. `names`: the place of each resource in vectors, which are so long. `order`: nodes come in it where
        prices are equal, those from AVOIDED on behind all others whatever the price."""
        self.prices = prices
        self._order = order
        self._budget = budget
        self._width = width
        self._devices = places_in(names, prices.resource)
        # Of levels only what is not on devices: the level says that one of them has room.
        self._plain = [place for name, place in names.items() if not is_place(name)]
        self._cpu = names.get(CPU, -1)
        self._margin = prices.unit // 2
        self._trees: dict[int, Places] = {ALL: Places(len(self._plain) + 1, budget, self._margin)}
        self._spots: dict[NodeEntry, Spots] = {}
        self._plans: dict[Demand, Plan] = {}
        self.seen = 0  # changes of nodes, of trees that follow them later

    # The places of a node

    def show(self, node: NodeEntry, available: Vector) -> None:
        """List the node with what is available there."""
        spots = self._spots.get(node)
        if spots is None:
            spots = self._spots[node] = Spots((self._order(node), node.id))
        free = self._free(available)
        slack = self._slack(available, free)
        amounts = tuple([available[place] for place in self._plain])
        levels = {ALL, *free}
        levels.discard(0)
        for level, place in spots.places.items():
            if level not in levels and level != SEVERAL:
                place.room = HIDDEN
        for level in levels:
            self._update(spots, node, level, amounts, slack)
        if SEVERAL in self._trees:
            self._update(spots, node, SEVERAL, available, slack)

    def hide(self, node: NodeEntry) -> None:
        """Find the node no more."""
        spots = self._spots.get(node)
        for place in spots.places.values() if spots is not None else ():
            place.room = HIDDEN

    def remove(self, node: NodeEntry) -> None:
        spots = self._spots.pop(node, None)
        for level, place in spots.places.items() if spots is not None else ():
            self._trees[level].tree.remove(place)

    def _free(self, available: Vector) -> list[Any]:
        """The amounts that are free on each device: whole numbers, as all amounts of a node in a group."""
        return [available[place] for place in self._devices]

    def _slack(self, available: Vector, free: list[Any]) -> int:
        cpu: Any = available[self._cpu] if self._cpu >= 0 else 0
        return self.prices.slack(cpu, free)

    def _update(self, spots: Spots, node: NodeEntry, level: int, amounts: Vector, slack: int) -> None:
        place, places = spots.places.get(level), self._trees.get(level)
        if place is None:
            place = spots.places[level] = Place(node)
        if places is None:
            places = self._trees[level] = Places(len(amounts) + 1, self._budget, self._margin)
        places.update(place, spots.rank, amounts, slack)

    def _make_several(self) -> None:
        """Make the tree for demands of several devices. O(nodes)."""
        self._trees[SEVERAL] = Places(self._width + 1, self._budget, self._margin)
        for node, spots in self._spots.items():
            if spots.places[ALL].room is not HIDDEN and node.group is not None:
                self.show(node, node.group.available)

    # The best node of a demand

    def best(self, demand: Demand) -> Node | None:
        """The node with the place of lowest price that the demand fits; of equal ones the first one in order."""
        plan, trees = self._plan_of(demand), self._trees
        best: Place | None = None
        lowest, failed = 0, plan.failed
        for number, (steps, level, need) in enumerate(plan.looks):
            if best is not None and steps > lowest and not best.node.avoided:
                break
            places = trees[level]
            if failed[number] == places.gained:
                continue
            place = places.first(need)
            if place is None:
                failed[number] = places.gained
            elif best is None or _is_better(place, best, steps == lowest):
                best, lowest = place, steps
        return best.node.node if best is not None else None

    def steps_of(self, demand: Demand, available: Vector) -> int:
        """The price of the demand's best place where so much is available, which covers it, in steps."""
        free = self._free(available)
        amounts, slack = tuple([available[place] for place in self._plain]), self._slack(available, free)
        for steps, level, need in self._plan_of(demand).looks:
            room = (*available, slack) if level == SEVERAL else (*amounts, slack)
            if (level < 0 or level in free) and covers(room, need):
                return steps
        raise AssertionError(f"no place for {demand.items}, which fits")

    def best_but(self, demand: Demand, refused: Container[str]) -> Node | None:
        """The node that `best` finds among those that are not refused."""
        best: Place | None = None
        lowest = 0
        for steps, level, need in self._plan_of(demand).looks:
            if best is not None and steps > lowest and not best.node.avoided:
                break
            place = next((one for one in self._with_room(level, need) if one.node.id not in refused), None)
            if place is not None and (best is None or _is_better(place, best, steps == lowest)):
                best, lowest = place, steps
        return best.node.node if best is not None else None

    def groups_with_room(self, demand: Demand) -> Iterator[NodeGroup]:
        """The groups of the nodes with room for the demand, in the order of their first nodes."""
        seen: set[NodeGroup] = set()
        for place in self._with_room(ALL, (*[demand.need[place] for place in self._plain], -MUCH)):
            group = place.node.group
            assert group is not None, "what was found is listed"
            if group not in seen and covers(group.available, demand.need):
                yield group
            seen.add(group)

    def _with_room(self, level: int, need: Vector) -> Iterator[Place]:
        start: Rank = ()
        while (place := self._trees[level].first(need, start)) is not None:
            assert place.rank is not None, "what was found is listed"
            start = (*place.rank, 0)  # right behind it
            yield place

    def _wants(self, demand: Demand) -> tuple[DeviceNeed | None, int]:
        """The demand's need of devices, and its CPU."""
        cpu: Any = demand.need[self._cpu] if self._cpu >= 0 else 0
        for share, devices in ((one.share, one.devices) for one in demand.on_devices):
            return DeviceNeed(self.prices.resource, share, devices), cpu
        return None, cpu

    def _plan_of(self, demand: Demand) -> Plan:
        plan = self._plans.get(demand)
        if plan is None or plan.levels != len(self._trees):
            looks = sorted(self._looks(demand), key=itemgetter(0))  # which may make a tree
            plan = Plan(len(self._trees), looks, [-1] * len(looks))
            if demand.number:  # others are asked about once
                self._plans[demand] = plan
        return plan

    def _looks(self, demand: Demand) -> Iterator[Look]:
        prices, (need, cpu) = self.prices, self._wants(demand)
        worth = prices.worth_of_ask(cpu)
        plain = tuple([demand.need[place] for place in self._plain])
        if need is None:
            levels = {ALL: plain}
        elif need.devices > 1:
            levels = {SEVERAL: demand.need}
            if SEVERAL not in self._trees:
                self._make_several()
        else:
            levels = {level: plain for level in self._trees if level >= need.share}
        for level, amounts in levels.items():
            loss = prices.loss(need, max(level, 0))
            for price, slack in prices_in_order(prices.price, loss, worth):
                yield prices.steps(price), level, (*amounts, slack)

    def after(self, demand: Demand, available: Vector) -> Vector:
        """The amounts that are available once the demand was placed where `available` is, on the device of lowest
        price."""
        prices, (need, cpu) = self.prices, self._wants(demand)
        if need is None or not is_share(need, prices.unit):
            return demand.after(available)
        free = self._free(available)
        free[prices.choose(free, need, cpu, self._slack(available, free))] -= need.share
        free.sort(reverse=True)
        rest = list(map(sub, available, demand.need))
        for place, amount in zip(self._devices, free, strict=True):
            rest[place] = amount
        return tuple(rest)

    def forget(self, demand: Demand) -> None:
        """Forget a demand that no ask has any more."""
        self._plans.pop(demand, None)

    def listed(self, node: NodeEntry) -> dict[int, Vector]:
        """The amounts that are listed of a node, by level: those that are available there, then the slack. For
        `check`."""
        spots = self._spots.get(node)
        places = spots.places.items() if spots is not None else ()
        shown = ((level, place) for level, place in places if place.rank is not None and place.room is not HIDDEN)
        return {level: (*place.room[:-1], place.slack) for level, place in shown}

    def expected(self, available: Vector) -> dict[int, Vector]:
        """The amounts that have to be listed of a node where so much is available, by level. For `check`."""
        free = self._free(available)
        slack = self._slack(available, free)
        amounts = tuple([available[place] for place in self._plain])
        several = {SEVERAL: (*available, slack)} if SEVERAL in self._trees else {}
        return {**dict.fromkeys({ALL, *free} - {0}, (*amounts, slack)), **several}


def _is_better(place: Place, best: Place, same_price: bool) -> bool:
    """Whether the place is better than the best one yet, which costs no more."""
    if same_price:
        assert place.rank is not None and best.rank is not None, "both are listed"
        return place.rank < best.rank
    return best.node.avoided and not place.node.avoided


class PricedNodes(NodeIndex):
    """The nodes of a partition whose node sort policy has prices. Nodes that are the same to the rules form groups as
    elsewhere, which stand in no order.

    The trees of a predicate class follow the changes of its accepted nodes when a node is next sought for it."""

    def __init__(self, partition: Partition, names: dict[str, int], budget: PassBudget, spare: int = 0) -> None:
        super().__init__(partition, names, budget, spare)
        assert partition.prices is not None, "the policy has prices"
        self.prices: Prices = partition.prices
        self._budget = budget
        self.trees = self._no_nodes()
        self.of_classes: dict[PredicateClass, PlaceTrees] = {}
        self.changed_nodes = ChangedNodes()
        self._kept = 0  # at least as many nodes as the trees of classes have

    def _no_nodes(self) -> PlaceTrees:
        return PlaceTrees(self.prices, self._names, self.width, self._order_of, self._budget)

    def _order_of(self, node: NodeEntry) -> int:
        """The order of a node for demands without devices, which have no reason to use the CPU of nodes with
        devices."""
        return (node.node.capacity.get(self.prices.resource, 0) > 0) + (AVOIDED if node.avoided else 0)

    def fill(self, nodes: Iterable[Node]) -> Iterator[None]:
        for node in nodes:
            entry = self._entry(node)
            if node.candidate:
                self._move(entry, self._group_for(entry))
            yield

    # Changes of nodes

    def _move(self, entry: NodeEntry, group: NodeGroup | None) -> bool:
        first = super()._move(entry, group)
        self._follow(entry)
        return first

    def _follow(self, entry: NodeEntry) -> None:
        if entry.group is None:
            self.trees.hide(entry)
        else:
            self.trees.show(entry, entry.group.available)
        if self.of_classes:
            self.changed_nodes.add(entry)

    def place(self, node: Node) -> NodeGroup | None:
        """Places the node as the base class does. Verdicts about the node may have ended."""
        group = super().place(node)
        if self.of_classes:
            self.changed_nodes.add(self._entries[node.id])
        return group

    def avoid(self, entry: NodeEntry, avoided: bool) -> None:
        for trees in (self.trees, *self.of_classes.values()):
            trees.remove(entry)  # its rank is another one
        super().avoid(entry, avoided)

    def remove(self, node: Node) -> None:
        entry = self._entries.get(node.id)
        super().remove(node)
        if entry is not None:
            self.changed_nodes.remove(entry)
            for trees in (self.trees, *self.of_classes.values()):
                trees.remove(entry)

    def _begun(self, group: NodeGroup, node: NodeEntry) -> None:
        group.room = group.available

    def _reorder(self, group: NodeGroup, node: NodeEntry) -> None:
        self._follow(node)

    def answered(self, found: PredicateClass, node_ids: Sequence[str]) -> None:
        self._note(node_ids)
        if found in self.of_classes:
            self._kept += len(node_ids)
            for entry in filter(None, map(self._entries.get, node_ids)):
                self.changed_nodes.add(entry)

    def _rest(self, demand: Demand, available: Vector) -> Vector:
        return self.trees.after(demand, available)

    def rank_of(self, demand: Demand, entry: NodeEntry, available: Vector) -> Rank:
        return (entry.avoided, self.trees.steps_of(demand, available), self._order_of(entry), entry.id)

    def forget(self, demand: Demand) -> None:
        super().forget(demand)
        self.trees.forget(demand)
        if demand.predicate_class in self.of_classes:
            self.of_classes[demand.predicate_class].forget(demand)

    # The best node of a demand

    def best(self, demand: Demand) -> Node | None:
        return self._best_but_refused(demand) if demand.node_specific else self.trees.best(demand)

    def _best_but_refused(self, demand: Demand) -> Node | None:
        found = demand.predicate_class
        if demand.required_node or found is not None:
            return super()._best_but_refused(demand)
        return self.trees.best_but(demand, demand.refused)

    def _best_accepted(self, demand: Demand, found: PredicateClass) -> Node | None:
        trees, changed = self.of_classes.get(found), self.changed_nodes
        if trees is None:
            trees = self._make_trees(found)
        elif trees.seen != changed.count:
            for entry in changed.since(trees.seen):
                self._follow_class(trees, found, entry)
        trees.seen = changed.count
        return trees.best(demand)

    def _make_trees(self, found: PredicateClass) -> PlaceTrees:
        """The trees of the nodes that are accepted for the class. Those of other classes are dropped where they are
        too many. O(accepted nodes)."""
        self._kept += LEFTOVERS + len(found.accepted)
        if self._kept > RANKED_NODES_KEPT:
            self.of_classes.clear()
            self._kept = LEFTOVERS + len(found.accepted)
        trees = self.of_classes[found] = self._no_nodes()
        for entry in filter(None, map(self._entries.get, found.accepted)):
            self._follow_class(trees, found, entry)
        return trees

    def _follow_class(self, trees: PlaceTrees, found: PredicateClass, entry: NodeEntry) -> None:
        if entry.group is None or entry.id not in found.accepted:
            trees.hide(entry)
        else:
            trees.show(entry, entry.group.available)

    def _with_room(self, demand: Demand) -> Iterator[NodeGroup]:
        return self.trees.groups_with_room(demand)

    def lost(self) -> list[str]:
        return [
            entry.id
            for found, trees in self.of_classes.items()
            for entry in self._entries.values()
            if not self.changed_nodes.is_after(trees.seen, entry)
            and trees.listed(entry)
            != (trees.expected(entry.group.available) if entry.group is not None and entry.id in found.accepted else {})
        ]
