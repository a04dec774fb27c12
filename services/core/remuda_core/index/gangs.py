"""Gangs whose real asks can replace placeholders now, in scheduling order (semantics section 12).

A real ask whose task group has placeholders, or will have, is in no ask class: it waits to replace one of them. A gang
is ready when it has such an ask and such a placeholder. Ready gangs are ranked like asks: by queues, then by
applications. Gangs that are not ready cost nothing.
"""

from __future__ import annotations

from ..rules.required_node import required_node
from ..rules.resource import Items
from ..state import Application, PendingAsk, Refusals, TaskGroup
from .asks import PriorityFifo
from .devices import items_of_ask
from .leaves import LeafOrder
from .ordered import Entry, Rank
from .queues import ParentOrder, QueueOrder, Serving


class AwaitingAsks(PriorityFifo):
    """The real asks of an application that wait for placeholders of one task group, and are equal to the rules."""

    __slots__ = ("gang", "group")

    def __init__(self, gang: Gang, group: TaskGroup) -> None:
        super().__init__()
        self.gang = gang
        self.group = group


# The key of equal real asks of a gang: amounts, a required node ("": any), nodes that the RM has refused, or the
# predicate class.
Want = tuple[Items, str, Refusals]


class Gang:
    """The real asks of an application that wait for placeholders. `Member` of the ranking of its leaf queue."""

    __slots__ = ("application", "dirty", "entry", "leaf", "ready", "waiting")

    def __init__(self, application: Application, leaf: LeafOrder) -> None:
        self.application = application
        self.leaf = leaf
        # The waiting asks by task group and by what they want. A task group is here exactly while it has placeholders,
        # or will have.
        self.waiting: dict[str, dict[Want, AwaitingAsks]] = {}
        # The task groups with a waiting ask and a placeholder that it may replace.
        self.ready: dict[str, None] = {}
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> Rank:
        """The rank of the application."""
        return self.leaf.member_rank(self.application)

    def waits(self, ask: PendingAsk) -> bool:
        """Whether the ask has to wait for a placeholder."""
        return ask.ask.task_group in self.waiting and not ask.ask.placeholder

    def add_ask(self, ask: PendingAsk) -> None:
        """Add a real ask that has to wait for a placeholder. The caller settles its task group."""
        name, items = ask.ask.task_group, items_of_ask(self.leaf.index.partition, ask)
        want = (items, required_node(ask.ask.tags), ask.refused)
        lines = self.waiting[name]
        line = lines.get(want)
        if line is None:
            line = lines[want] = AwaitingAsks(self, self.application.task_groups[name])
        line.add_ask(ask)
        self.leaf.index.lines[ask] = line

    def settle(self, name: str) -> None:
        """Find out whether the gang is ready, and rank it if so: asks or placeholders of a task group came or went."""
        lines = self.waiting.get(name, {})
        for want in [want for want, line in lines.items() if line.first_ask() is None]:
            del lines[want]
        if lines and self.application.task_groups[name].free:
            self.ready[name] = None
        else:
            self.ready.pop(name, None)
        self.leaf.index.blocked_gangs.pop(self, None)
        if self.ready:
            enter(self)
        else:
            leave(self)

    def first_asks(self) -> list[PendingAsk]:
        """The first ask of each ready line, by priority and age."""
        found = [
            ask for name in self.ready for line in self.waiting[name].values() if (ask := line.first_ask()) is not None
        ]
        return sorted(found, key=lambda ask: (-ask.ask.priority, ask.seq))


# The ranking of ready gangs, queue by queue


def enter(gang: Gang) -> None:
    """Add the gang to the ranking, or mark its rank as changed. O(depth of the queue). Does nothing while its queue is
    held."""
    leaf = gang.leaf
    if leaf.held:
        return
    leaf.gangs.enter(gang)
    order: ParentOrder | LeafOrder = leaf
    while (above := order.above) is not None and order.serving is None:
        order.serving = Serving(order)
        above.gangs.enter(order.serving)
        order = above


def leave(gang: Gang) -> None:
    """Remove the gang from the ranking. Does nothing if it is not ranked. O(depth of the queue)."""
    leaf = gang.leaf
    leaf.gangs.leave(gang)
    order: ParentOrder | LeafOrder = leaf
    while (above := order.above) is not None and order.serving is not None and not order.gangs.members:
        above.gangs.leave(order.serving)
        order.serving = None
        order = above


def first(root: ParentOrder | LeafOrder) -> Gang | None:
    """The ready gang that is next; None if no gang is ready."""
    order: QueueOrder = root
    while isinstance(order, ParentOrder):
        serving = order.gangs.first()
        if serving is None:
            return None
        order = serving.order
    assert isinstance(order, LeafOrder), "queues are parents or leaves"
    found = order.gangs.first()
    return found if isinstance(found, Gang) else None
