"""Groups of asks that want something of the topology, and who their members are (semantics section 21).

    Group           the members of a group: its pending asks by their demands, and in which domains its allocations are
    GroupMembers    all groups of a partition

A group is bound while it has an allocation or held room: its domain at a level is the one that has most of them. That
follows from the allocations and their nodes, so no fact says it, and a node that moves takes the group along. Where
members are placed is in `groups`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..rules.topology import APPLICATION, Path, Wish, wish_of
from ..settings import TopologyLevel
from ..state import Allocation, Application, Node, Partition, PendingAsk, Question
from .avoidance import Avoidance, GroupKey
from .domains import Domains
from .node_groups import Demand
from .nodes import NodeIndex
from .trees import PassBudget

# An allocation by its UUID, or held room by the number of the question.
HeldBy = str | int


@dataclass(slots=True, eq=False)
class Group:
    key: GroupKey
    application: Application
    # The asks in lines with their demands and free repeats, and how many members of each demand that are.
    asks: dict[PendingAsk, tuple[Demand, int]] = field(default_factory=dict)
    free: dict[Demand, int] = field(default_factory=dict)
    # The allocations and held room, and how many of them are in each domain, by level.
    members: int = 0
    counts: list[dict[Path, int]] = field(default_factory=list)

    def count(self, paths: Iterable[tuple[int, Path]], more: int) -> None:
        self.members += more
        for level, path in paths:
            at = self.counts[level]
            left = at.get(path, 0) + more
            if left:
                at[path] = left
            else:
                del at[path]

    def set_free(self, ask: PendingAsk, demand: Demand | None, repeats: int) -> None:
        """Note the free repeats of an ask in the line of a demand; 0: it is in no line."""
        known = self.asks.pop(ask, None)
        if known is not None:
            left = self.free[known[0]] - known[1]
            if left:
                self.free[known[0]] = left
            else:
                del self.free[known[0]]
        if demand is not None and repeats:
            self.asks[ask] = (demand, repeats)
            self.free[demand] = self.free.get(demand, 0) + repeats

    def most(self, level: int) -> Path | None:
        """The domain of the level with most members; of equal ones the smallest path."""
        counts = self.counts[level]
        return min(counts, key=lambda path: (-counts[path], path)) if counts else None


class Index(Protocol):
    """The index of the partition, as groups see it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def budget(self) -> PassBudget: ...
    @property
    def lines(self) -> Mapping[PendingAsk, Any]: ...
    def open(self, demand: Demand) -> None: ...
    def quota_changed(self, demand: Demand, application: Application) -> None: ...


class GroupMembers:
    """The groups of a partition with a topology, and their members."""

    def __init__(self, index: Index, levels: tuple[TopologyLevel, ...]) -> None:
        self.index = index
        self.levels = levels
        self.domains = Domains(levels, index.nodes, index.budget)
        index.nodes.changed = self.domains.changed
        self.avoidance = Avoidance(index.partition, self.domains, index.nodes)
        self.by_key: dict[GroupKey, Group] = {}
        # The groups of each application, for levels that all its asks share.
        self.of_application: dict[str, dict[Group, None]] = {}
        # Where each allocation and each held room is counted.
        self.held: dict[HeldBy, tuple[tuple[Group, ...], tuple[tuple[int, Path], ...]]] = {}
        # Groups with other members than before, until `settle`.
        self.changed: dict[Group, None] = {}

    # Members

    def member_of(self, ask: PendingAsk) -> tuple[Group, Wish] | None:
        """The group of the ask, which is made if there is none; None if it wants nothing of the topology."""
        wish = wish_for(ask.ask, ask.application)
        return (self._group(ask.application, wish.group), wish) if wish is not None else None

    def wants(self, ask: PendingAsk) -> bool:
        return wish_for(ask.ask, ask.application) is not None

    def _group(self, application: Application, name: str) -> Group:
        key = (application.id, name)
        group = self.by_key.get(key)
        if group is None:
            counts: list[dict[Path, int]] = [{} for _ in range(len(self.levels) + 1)]
            group = self.by_key[key] = Group(key, application, counts=counts)
            self.of_application.setdefault(application.id, {})[group] = None
            self.changed[group] = None
        elif group.application is not application:
            group.application = application  # the former application with this ID has ended, with all members
        return group

    def add_ask(self, ask: PendingAsk, demand: Demand) -> None:
        """Note that the ask is in the line of the demand. A placeholder may complete a gang whatever group it is in."""
        group = demand.group_of_asks
        if isinstance(group, Group):
            group.set_free(ask, demand, ask.free)
            self.changed[group] = None
        if ask.ask.placeholder:
            self.changed.update(self.of_application.get(ask.application.id, {}))

    def placed(self, ask: PendingAsk, demand: Demand) -> None:
        """Note that a repeat of the ask was placed."""
        group = demand.group_of_asks
        assert isinstance(group, Group), "only demands of groups are noted"
        group.set_free(ask, demand, ask.free)
        self.changed[group] = None

    def remove_ask(self, ask: PendingAsk, demand: Demand) -> None:
        """Note that the ask has left the line of the demand."""
        group = demand.group_of_asks
        if isinstance(group, Group):
            group.set_free(ask, None, 0)
            self.changed[group] = None

    def hold(self, held_by: HeldBy, node: Node, application: Application, fact: Any) -> None:
        """Count an allocation or held room, if its tags make it a member of a group."""
        wish = wish_for(fact, application)
        if wish is None:
            return
        groups: tuple[Group, ...] = (self._group(application, wish.group),)
        if wish.outer or (wish.near and wish.group != APPLICATION):
            groups = (*groups, self._group(application, APPLICATION))
        where = self._where(node)
        self.held[held_by] = (groups, where)
        for group in groups:
            group.count(where, 1)
            self.changed[group] = None

    def give_back(self, held_by: HeldBy) -> None:
        """Count an allocation or held room no more. Does nothing if it was no member."""
        found = self.held.pop(held_by, None)
        if found is not None:
            for group in found[0]:
                group.count(found[1], -1)
                self.changed[group] = None

    def _where(self, node: Node) -> tuple[tuple[int, Path], ...]:
        return tuple((self.domains.level_of(path), path) for path in self.domains.path_of(node))

    # Nodes

    def node_changed(self, node: Node, questions: Iterable[int] = ()) -> None:
        """Follow a node that is new, or has other attributes: members on it are in other domains."""
        moved = self.domains.node_changed(node)
        self.avoidance.node_changed(self.index.nodes.entry_of(node))
        if moved:
            where = self._where(node)
            members: list[HeldBy] = [*node.allocations, *questions]
            for held_by in members:
                found = self.held.get(held_by)
                if found is not None and found[1] != where:
                    self.held[held_by] = (found[0], where)
                    for group in found[0]:
                        group.count(found[1], -1)
                        group.count(where, 1)
                        self.changed[group] = None

    def node_removed(self, node: Node) -> None:
        self.avoidance.node_removed(self.index.nodes.entry_of(node))
        self.domains.node_removed(node)

    # The whole

    def count_all(self, allocations: Iterable[Allocation], questions: Iterable[Question]) -> None:
        """Count what there is. For an index that is made anew."""
        for allocation in allocations:
            self.hold(allocation.fact.uuid, allocation.node, allocation.application, allocation.fact)
        for question in questions:
            self.hold_question(question)

    def hold_question(self, question: Question) -> None:
        ask = question.application.asks.get(question.fact.allocation_key)
        if ask is not None:
            self.hold(question.fact.question, question.node, question.application, ask.ask)


def is_used(partition: Partition) -> bool:
    """Whether the partition has a topology, or asks that want something of one it had."""
    if partition.settings.topology:
        return True
    return any(
        wish_of(ask.ask.tags, application.tags, "", "") is not None
        for application in partition.applications.values()
        for ask in application.asks.values()
        if ask.ask.tags or application.tags
    )


def wish_for(fact: Any, application: Application) -> Wish | None:
    """`fact`: of an ask, an allocation or held room."""
    return wish_of(fact.tags, application.tags, fact.task_group, fact.allocation_key)
