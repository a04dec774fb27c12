"""Whose turn it is to preempt: asks that may, by when they become due.

Asks of one leaf that are alike (resource, required node, priority) form a group: what cannot be done for one of them
cannot be done for the others, so one attempt answers for all. A group is due once its oldest ask has waited for its
queue's `preemption.delay`, and again an interval after it was refused. Who has been allocated or withdrawn is found out
when the turn comes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from ..rules.properties import is_state_aware, preemption_delay_ms
from ..rules.resource import Items, items_of
from .admission import limit_of
from .required_node import required_node
from .waiting import Waiting

if TYPE_CHECKING:
    from ..state import Application, PendingAsk, Queue, Tracker

# So many asks are kept in a group before those that are over are sorted out.
ROOM = 1_024


class Kind(NamedTuple):
    """What makes asks alike; in the order of their turn: priority high to low, then by name."""

    negated_priority: int
    path: str
    resource: Items
    required_node: str
    # One that is under limits, or has to wait for its turn, is not like others.
    application_id: str


class Group:
    __slots__ = ("asks", "due_ms", "kind", "queue", "room", "seqs")

    def __init__(self, kind: Kind, queue: Queue) -> None:
        self.kind = kind
        self.queue = queue
        self.asks: dict[int, PendingAsk] = {}
        self.seqs: list[int] = []  # a heap: the oldest first
        self.due_ms = -1  # of its entry among those that wait; -1: it has none
        self.room = ROOM

    def add(self, ask: PendingAsk) -> None:
        self.asks[ask.seq] = ask
        heappush(self.seqs, ask.seq)
        if len(self.asks) > self.room:  # one that waits for long must not hold on to all that came after it
            self.asks = {seq: other for seq, other in self.asks.items() if other.pending}
            self.seqs = sorted(self.asks)
            self.room = max(ROOM, 2 * len(self.asks))

    def head(self) -> PendingAsk | None:
        while self.seqs:
            ask = self.asks.get(self.seqs[0])
            if ask is not None and ask.pending and not ask.preempted_at_ms and not awaits_place(ask):
                return ask
            self.asks.pop(heappop(self.seqs), None)
        return None

    def when_ms(self, head: PendingAsk, interval_ms: int) -> int:
        _, _, resource, node_id, _ = self.kind
        refused_ms = self.queue.refusals.get((resource, node_id, head.ask.priority))
        first_ms = head.at_ms + delay_ms(head)
        return first_ms if refused_ms is None else max(first_ms, refused_ms + interval_ms)


def delay_ms(ask: PendingAsk) -> int:
    """How long the ask has to wait: not at all if it is bound to a node."""
    if required_node(ask.ask.tags):
        return 0
    return preemption_delay_ms(ask.application.queue.settings.properties)


def awaits_place(ask: PendingAsk) -> bool:
    """That of a placeholder: nobody has to go for it. (It is added again when it waits for a node.)"""
    return ask.application.gang is not None and ask.application.gang.waits(ask)


def may_claim(ask: PendingAsk) -> bool:
    """It could preempt others some day: something is guaranteed to it, or it is bound to a node."""
    if required_node(ask.ask.tags):
        return True
    return bool(ask.ask.allow_preempt_other) and any(
        queue.settings.guaranteed for queue in ask.application.queue.lineage
    )


def kind_of(ask: PendingAsk) -> Kind:
    application = ask.application
    queue = application.queue
    alone = application.trackers or application.gates or is_state_aware(queue.settings.properties)
    return Kind(
        -ask.ask.priority,
        queue.path,
        items_of(ask.ask.resource),
        required_node(ask.ask.tags),
        application.id if alone else "",
    )


def what_limits(ask: PendingAsk) -> Queue | Tracker | Application | None:
    """Nothing may be preempted for what could not be allocated then."""
    leaf: Any = ask.application.queue.order
    if leaf.holds_back(ask.application):
        return ask.application
    return limit_of(ask)


class Claimants:
    def __init__(self) -> None:
        self.groups: dict[Kind, Group] = {}
        self._waiting: list[tuple[int, Kind]] = []
        self._ready: list[Kind] = []
        self.limited: Waiting[Kind] = Waiting()
        # Kinds of one application, by its ID.
        self._alone: dict[str, dict[Kind, None]] = {}

    def add(self, ask: PendingAsk) -> None:
        if not may_claim(ask):
            return
        queue = ask.application.queue
        kind = kind_of(ask)
        group = self.groups.get(kind)
        if group is None:
            group = self.groups[kind] = Group(kind, queue)
            if kind.application_id:
                self._alone.setdefault(kind.application_id, {})[kind] = None
            heappush(self._ready, kind)  # looked at once, to learn when it is due
        elif group.queue is not queue:  # one of that name is new
            group.queue = queue
        group.add(ask)
        if group.due_ms > ask.at_ms and group.seqs[0] == ask.seq:  # it came back, and is older than the others
            self._wait(group, ask.at_ms)

    def next(self, interval_ms: int, now_ms: int) -> PendingAsk | None:
        """Whose turn it is. It stays so until the ask has its way, or it is refused."""
        waiting, ready = self._waiting, self._ready
        while waiting and waiting[0][0] <= now_ms:
            due_ms, kind = heappop(waiting)
            group = self.groups.get(kind)
            if group is not None and group.due_ms == due_ms:
                group.due_ms = -1
                heappush(ready, kind)
        while ready:
            group = self.groups[ready[0]]
            head = group.head()
            if head is None:
                self._forget(heappop(ready))
            elif (limit := what_limits(head)) is not None:
                self.limited.wait(heappop(ready), limit)
            elif (when_ms := group.when_ms(head, interval_ms)) > now_ms:
                heappop(ready)
                self._wait(group, when_ms)
            else:
                return head
        return None

    def wake(self, limit: Queue | Tracker | Application) -> None:
        """Who waits there may go on."""
        for kind in self.limited.at(limit):
            self._go_on(kind)

    def wake_application(self, application: Application) -> None:
        """Other limits stand in its way, or none."""
        for kind in self._alone.get(application.id, ()):
            if kind in self.limited:
                self._go_on(kind)

    def _go_on(self, kind: Kind) -> None:
        self.limited.leave(kind)
        heappush(self._ready, kind)

    def _forget(self, kind: Kind) -> None:
        del self.groups[kind]
        if kind.application_id:
            others = self._alone[kind.application_id]
            del others[kind]
            if not others:
                del self._alone[kind.application_id]

    def _wait(self, group: Group, due_ms: int) -> None:
        group.due_ms = due_ms
        heappush(self._waiting, (due_ms, group.kind))

    def known(self) -> set[int]:
        """The age of every ask that has or will have a turn, for `check`."""
        return {ask.seq for group in self.groups.values() for ask in group.asks.values() if ask.pending}
