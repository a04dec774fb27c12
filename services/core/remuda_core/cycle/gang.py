"""Gangs: real asks take the places that placeholders keep for them (semantics section 12).

A real ask whose task group has placeholders, or will have, stands in no lane: it waits for one of their places. An
application with such an ask and such a place takes part in a contest like the one for nodes: by queues, then by
applications. Where no gang can go on, looking costs nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from ..facts import (
    PLACEHOLDER_REPLACED,
    TIMEOUT,
    Allocated,
    Fact,
    ReplacementAsked,
    ReplacementStarted,
)
from ..limits import ANSWER_WITHIN_MS
from ..rules.lifecycle import RESUMING
from ..rules.resource import Items, Resource, items_of, show
from .contest import Entry
from .order import Asks, LeafOrder, ParentOrder, Rank, Serving
from .place import allocate
from .release import release_requested
from .required_node import required_node

if TYPE_CHECKING:
    from ..state import Allocation, Application, Node, PendingAsk, State, TaskGroup
    from .index import Index


class Awaiting(Asks):
    """The asks of an application that wait for places of one task group, and want the same."""

    __slots__ = ("gang", "group")

    def __init__(self, gang: Gang, group: TaskGroup) -> None:
        super().__init__()
        self.gang = gang
        self.group = group


# What asks want: amounts, a required node ("": any), and not the nodes the RM has refused.
Want = tuple[Items, str, frozenset[str]]


class Gang:
    """What of an application waits for places, by task group and by what it wants."""

    __slots__ = ("application", "dirty", "entry", "leaf", "ready", "waiting")

    def __init__(self, application: Application, leaf: LeafOrder) -> None:
        self.application = application
        self.leaf = leaf
        self.waiting: dict[str, dict[Want, Awaiting]] = {}
        # Task groups with an ask and a place.
        self.ready: dict[str, None] = {}
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> Rank:
        return self.leaf.application_rank(self.application)

    def waits(self, ask: PendingAsk) -> bool:
        """For the place of a placeholder, and for no other."""
        return ask.ask.task_group in self.waiting and not ask.ask.placeholder

    def add(self, ask: PendingAsk) -> None:
        name, want = ask.ask.task_group, (items_of(ask.ask.resource), required_node(ask.ask.tags), ask.refused)
        lines = self.waiting[name]
        line = lines.get(want)
        if line is None:
            line = lines[want] = Awaiting(self, self.application.task_groups[name])
        line.add(ask)

    def settle(self, name: str) -> None:
        """Asks or places of a task group came or went: find out whether it is ready, and take part or not."""
        lines = self.waiting.get(name, {})
        for want in [want for want, line in lines.items() if line.head() is None]:
            del lines[want]
        if lines and self.application.task_groups[name].free:
            self.ready[name] = None
        else:
            self.ready.pop(name, None)
        self.leaf.index.blocked.pop(self, None)
        if self.ready:
            enter(self)
        else:
            leave(self)

    def heads(self) -> list[PendingAsk]:
        """The first ask of each line that may find a place, in the order of asks."""
        found = [ask for name in self.ready for line in self.waiting[name].values() if (ask := line.head()) is not None]
        return sorted(found, key=lambda ask: (-ask.ask.priority, ask.seq))


# Who takes part


def enter(gang: Gang) -> None:
    """Or have the rank computed again."""
    leaf = gang.leaf
    leaf.gangs.enter(gang)
    order: ParentOrder | LeafOrder = leaf
    while (above := order.above) is not None and order.serving is None:
        order.serving = Serving(order)
        above.gangs.enter(order.serving)
        order = above


def leave(gang: Gang) -> None:
    leaf = gang.leaf
    leaf.gangs.leave(gang)
    order: ParentOrder | LeafOrder = leaf
    while (above := order.above) is not None and order.serving is not None and not order.gangs.members:
        above.gangs.leave(order.serving)
        order.serving = None
        order = above


def first(root: ParentOrder | LeafOrder) -> Gang | None:
    order = root
    while isinstance(order, ParentOrder):
        serving = order.gangs.first()
        if serving is None:
            return None
        order = serving.order
    return order.gangs.first()


# The step of the cycle


def replace(state: State, index: Index, budget: int, now_ms: int) -> Generator[Fact, None, int]:
    """Start what replacements can be started, at most `budget`. Returns how many."""
    started = 0
    while started < budget and (gang := index.next_gang()) is not None:
        for pending in gang.heads():
            found = yield from find_place(index, pending)
            if found is not None:
                yield from take(state, pending, *found, now_ms)
                started += 1
                break
        else:
            index.block(gang)
    return started


def find_place(index: Index, pending: PendingAsk) -> Generator[Fact, None, tuple[Allocation, Node] | None]:
    """The placeholder to replace and the node to go to. Placeholders that are too small for it are given up."""
    line, need = pending.line, pending.ask.resource
    if not isinstance(line, Awaiting) or not line.group.free:
        return None
    free = line.group.free.values()
    resuming = line.gang.application.state == RESUMING  # all of them go by themselves
    if not resuming and not covers(next(iter(free)).fact.resource, need):
        for placeholder in [p for p in free if not p.releasing and not covers(p.fact.resource, need)]:
            message = f"too small for {pending.ask.allocation_key}: {show(placeholder.fact.resource)}, {show(need)}"
            yield release_requested(placeholder, TIMEOUT, message)
    return place(index, line, pending) if pending.line is line else None


def place(index: Index, line: Awaiting, pending: PendingAsk) -> tuple[Allocation, Node] | None:
    """The placeholder's own node if that takes anything new, else any with room."""
    first, bound_to = None, required_node(pending.ask.tags)
    for placeholder in line.group.free.values():
        if covers(placeholder.fact.resource, pending.ask.resource):
            node, first = placeholder.node, first or placeholder
            if node.schedulable and bound_to in ("", node.id) and node.id not in pending.refused:
                return placeholder, node
    elsewhere = index.best_node(pending) if first is not None else None
    return None if first is None or elsewhere is None else (first, elsewhere)


def covers(room: Resource, need: Resource) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in need.items())


def take(state: State, pending: PendingAsk, placeholder: Allocation, node: Node, now_ms: int) -> Iterator[Fact]:
    """The RM is asked for the placeholder; the allocation is made when it confirms. Where it declares predicates, it is
    asked about the node before that."""
    allocation = allocate(state, pending, node.id)
    yield ReplacementStarted(allocation, placeholder.fact.uuid, placeholder.fact.allocation_key)
    if state.predicates:
        yield ReplacementAsked(
            allocation.partition,
            allocation.application_id,
            allocation.allocation_key,
            node.id,
            allocation.uuid,
            state.next_question,
            now_ms + ANSWER_WITHIN_MS,
        )
    else:
        yield asked_for(placeholder, allocation)


def asked_for(placeholder: Allocation, allocation: Allocated) -> Fact:
    return release_requested(
        placeholder, PLACEHOLDER_REPLACED, f"replaced by {allocation.allocation_key}, {allocation.uuid}"
    )
