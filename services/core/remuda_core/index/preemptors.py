"""Rank the asks that may preempt by the time at which they become due.

Asks of one leaf that are alike (resource, priority) form a group: what cannot be done for one of them
cannot be done for the others, so one attempt answers for all. A group is due once its oldest ask has waited for its
queue's `preemption.delay`, and again an interval after it was refused. Who has been allocated or withdrawn is found out
when the turn comes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from ..limits import LEFTOVERS
from ..rules.properties import is_state_aware, preemption_delay_ms
from ..rules.resource import Items, items_of
from ..state import Application, PendingAsk, Queue, Tracker
from .admission import limit_of
from .blocked import BlockedBy


class Index(Protocol):
    """What is needed here of the index that this is a part of."""

    def awaits_place(self, ask: PendingAsk) -> bool: ...
    def holds_back(self, application: Application) -> bool: ...


class PreemptorKind(NamedTuple):
    """What makes asks alike; in the order of their turn: priority high to low, then by name."""

    negated_priority: int
    path: str
    resource: Items
    # One that is under limits, or has to wait for its turn, is not like others.
    application_id: str


class PreemptorGroup:
    __slots__ = ("asks", "due_ms", "kind", "queue", "seqs")

    def __init__(self, kind: PreemptorKind, queue: Queue) -> None:
        self.kind = kind
        self.queue = queue
        self.asks: dict[int, PendingAsk] = {}
        self.seqs: list[int] = []  # a heap: the oldest first
        self.due_ms = -1  # of its entry among those that wait; -1: it has none

    def add_ask(self, ask: PendingAsk) -> None:
        if ask.seq not in self.asks:
            heappush(self.seqs, ask.seq)
        self.asks[ask.seq] = ask

    def drop_finished(self) -> None:
        """Those that are over."""
        self.asks = {seq: ask for seq, ask in self.asks.items() if ask.pending}
        self.seqs = sorted(self.asks)

    def first_ask(self, index: Index) -> PendingAsk | None:
        while self.seqs:
            ask = self.asks.get(self.seqs[0])
            if ask is not None and ask.pending and not ask.preempted_at_ms and not index.awaits_place(ask):
                return ask
            self.asks.pop(heappop(self.seqs), None)
        return None

    def due_at_ms(self, head: PendingAsk, interval_ms: int) -> int:
        refused_ms = self.queue.refusals.get((self.kind.resource, "", head.ask.priority))
        first_ms = head.at_ms + preemption_delay_ms(self.queue.settings.properties)
        return first_ms if refused_ms is None else max(first_ms, refused_ms + interval_ms)


def can_preempt(ask: PendingAsk) -> bool:
    """It could preempt others some day: something is guaranteed to it."""
    return bool(ask.ask.allow_preempt_other) and any(
        queue.settings.guaranteed for queue in ask.application.queue.path_to_root
    )


def preemptor_kind(ask: PendingAsk) -> PreemptorKind:
    application = ask.application
    queue = application.queue
    alone = application.trackers or application.application_limits or is_state_aware(queue.settings.properties)
    return PreemptorKind(
        -ask.ask.priority,
        queue.path,
        items_of(ask.ask.resource),
        application.id if alone else "",
    )


class Preemptors:
    def __init__(self, index: Index) -> None:
        self._index = index
        self.groups: dict[PreemptorKind, PreemptorGroup] = {}
        self._waiting: list[tuple[int, PreemptorKind]] = []
        self._ready: list[PreemptorKind] = []
        # Those that were passed over in this pass.
        self._passed: list[PreemptorKind] = []
        self.limited: BlockedBy[PreemptorKind] = BlockedBy()
        # Kinds of one application, by its ID.
        self._alone: dict[str, dict[PreemptorKind, None]] = {}
        self._by_queue: dict[Queue, dict[PreemptorKind, None]] = {}
        # How many asks are known, and how many of them are over, at the most.
        self.held = self._over = 0

    def add_ask(self, ask: PendingAsk) -> None:
        if not can_preempt(ask):
            return
        queue = ask.application.queue
        kind = preemptor_kind(ask)
        group = self.groups.get(kind)
        if group is None:
            group = self.groups[kind] = PreemptorGroup(kind, queue)
            self._by_queue.setdefault(queue, {})[kind] = None
            if kind.application_id:
                self._alone.setdefault(kind.application_id, {})[kind] = None
            heappush(self._ready, kind)  # looked at once, to learn when it is due
        elif group.queue is not queue:  # one of that name is new
            self._unlist(group)
            group.queue = queue
            self._by_queue.setdefault(queue, {})[kind] = None
        self.held -= len(group.asks)
        group.add_ask(ask)
        self.held += len(group.asks)
        if group.due_ms > ask.at_ms and group.seqs[0] == ask.seq:  # it came back, and is older than the others
            self._schedule_turn(group, ask.at_ms)

    def begin_pass(self) -> None:
        """A pass begins."""
        for kind in self._passed:
            heappush(self._ready, kind)
        self._passed.clear()

    def due_since(self, interval_ms: int, head: PendingAsk) -> int:
        """Of the ask whose turn it is."""
        return self.groups[self._ready[0]].due_at_ms(head, interval_ms)

    def pass_over(self) -> None:
        """The ask whose turn it is does not preempt in this pass."""
        self._passed.append(heappop(self._ready))

    def next_ask(self, interval_ms: int, now_ms: int) -> PendingAsk | None:
        """Whose turn it is. It stays so until the ask has its way, or it is refused."""
        waiting, ready = self._waiting, self._ready
        while waiting and waiting[0][0] <= now_ms:
            due_ms, kind = heappop(waiting)
            group = self.groups.get(kind)
            if group is not None and group.due_ms == due_ms:
                group.due_ms = -1
                heappush(ready, kind)
        while ready:
            group = self.groups.get(ready[0])
            if group is None:
                heappop(ready)
                continue
            before = len(group.asks)
            head = group.first_ask(self._index)
            self.held -= before - len(group.asks)
            if head is None:
                self._forget_kind(heappop(ready))
            elif (limit := self._limit_of(head)) is not None:
                self.limited.block(heappop(ready), limit)
            elif (due_at_ms := group.due_at_ms(head, interval_ms)) > now_ms:
                heappop(ready)
                self._schedule_turn(group, due_at_ms)
            else:
                return head
        return None

    def _limit_of(self, ask: PendingAsk) -> Queue | Tracker | Application | None:
        """Nothing may be preempted for what could not be allocated then."""
        if self._index.holds_back(ask.application):
            return ask.application
        return limit_of(ask)

    def count_finished(self) -> None:
        """An ask that may be known here is over. When they outnumber the others they go: one that waits for long must
        not hold on to all that came after it."""
        self._over += 1
        if 2 * self._over <= self.held + LEFTOVERS:
            return
        for group in self.groups.values():
            group.drop_finished()
        self.held, self._over = sum(len(group.asks) for group in self.groups.values()), 0
        for kind in [kind for kind, group in self.groups.items() if not group.asks]:
            self.limited.unblock(kind)
            self._forget_kind(kind)
        self._sift()

    def _sift(self) -> None:
        self._ready = sorted({kind for kind in self._ready if kind in self.groups})
        self._waiting = sorted({entry for entry in self._waiting if self._is_current(*entry)})

    def _is_current(self, due_ms: int, kind: PreemptorKind) -> bool:
        group = self.groups.get(kind)
        return group is not None and group.due_ms == due_ms

    def wake_at(self, limit: Queue | Tracker | Application) -> None:
        """Who waits there may go on."""
        for kind in self.limited.blocked_at(limit):
            self._make_ready(kind)

    def wake_application(self, application: Application) -> None:
        """Other limits stand in its way, or none."""
        for kind in self._alone.get(application.id, ()):
            if kind in self.limited:
                self._make_ready(kind)

    def _make_ready(self, kind: PreemptorKind) -> None:
        self.limited.unblock(kind)
        heappush(self._ready, kind)

    def _forget_kind(self, kind: PreemptorKind) -> None:
        group = self.groups.pop(kind)
        self.held -= len(group.asks)
        self._unlist(group)
        if kind.application_id:
            others = self._alone[kind.application_id]
            del others[kind]
            if not others:
                del self._alone[kind.application_id]

    def _unlist(self, group: PreemptorGroup) -> None:
        others = self._by_queue[group.queue]
        del others[group.kind]
        if not others:
            del self._by_queue[group.queue]

    def forget_queue(self, queue: Queue) -> None:
        """All its asks. What is ready or waits is found out when it comes up."""
        for kind in list(self._by_queue.get(queue, ())):
            self.limited.unblock(kind)
            self._forget_kind(kind)
        if len(self._ready) + len(self._waiting) > 4 * len(self.groups) + LEFTOVERS:
            self._sift()

    def _schedule_turn(self, group: PreemptorGroup, due_ms: int) -> None:
        group.due_ms = due_ms
        heappush(self._waiting, (due_ms, group.kind))

    def known_seqs(self) -> set[int]:
        """The age of every ask that has or will have a turn, for `check`."""
        return {ask.seq for group in self.groups.values() for ask in group.asks.values() if ask.pending}
