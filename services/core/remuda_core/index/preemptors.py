"""Find the next ask that may preempt others (semantics section 13).

Asks of one leaf queue with the same resource and priority form a group: if nothing can be preempted for one of them,
nothing can be for the others, so one attempt answers for all. A group is due when its oldest ask has waited for the
queue's `preemption.delay`, and again an interval after an attempt was refused, or as soon as a node is no longer set
aside for another ask, if that is why. An ask preempts for one of its allocations at a time. Due groups take turns by
priority. Asks that were allocated or withdrawn are dropped when their turn comes. O(log groups) for each ask that
comes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from ..limits import LEFTOVERS
from ..rules.properties import is_state_aware, preemption_delay_ms
from ..rules.resource import Items, items_of
from ..state import Application, Partition, PendingAsk, Queue, Tracker
from .admission import limit_of
from .blocked import BlockedBy


class Index(Protocol):
    """The partition's index, as preemptors see it."""

    @property
    def partition(self) -> Partition: ...
    def awaits_place(self, ask: PendingAsk) -> bool: ...
    def holds_back(self, application: Application) -> bool: ...


class PreemptorKind(NamedTuple):
    """The properties that the asks of a group share. Kinds sort in the order of their turns."""

    negated_priority: int
    path: str
    resource: Items
    # Set if limits or turns apply to the application: then its asks are like no other application's. Else empty.
    application_id: str


class PreemptorGroup:
    __slots__ = ("asks", "due_ms", "kind", "queue", "seqs")

    def __init__(self, kind: PreemptorKind, queue: Queue) -> None:
        self.kind = kind
        self.queue = queue
        self.asks: dict[int, PendingAsk] = {}
        self.seqs: list[int] = []  # a heap: the oldest first
        self.due_ms = -1  # when its turn comes; -1: it is not among the waiting groups

    def add_ask(self, ask: PendingAsk) -> None:
        if ask.seq not in self.asks:
            heappush(self.seqs, ask.seq)
        self.asks[ask.seq] = ask

    def drop_finished(self) -> None:
        """Drop asks of which nothing is pending."""
        self.asks = {seq: ask for seq, ask in self.asks.items() if ask.pending}
        self.seqs = sorted(self.asks)

    def first_ask(self, index: Index) -> PendingAsk | None:
        while self.seqs:
            ask = self.asks.get(self.seqs[0])
            if ask is not None and ask.pending and ask.preemption is None and not index.awaits_place(ask):
                return ask
            self.asks.pop(heappop(self.seqs), None)
        return None

    def due_at_ms(self, head: PendingAsk, interval_ms: int) -> int:
        refused_ms = self.queue.refusals.get((self.kind.resource, "", head.ask.priority))
        first_ms = head.at_ms + preemption_delay_ms(self.queue.settings.properties)
        return first_ms if refused_ms is None else max(first_ms, refused_ms + interval_ms)


def can_preempt(ask: PendingAsk) -> bool:
    """Whether the ask allows itself to preempt, and a queue on its path has guaranteed resources."""
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
        # Ready kinds that were passed over in this pass.
        self._passed: list[PreemptorKind] = []
        # Waiting kinds that are ready as soon as a node is no longer set aside for another ask.
        self._set_aside: dict[PreemptorKind, None] = {}
        self.limited: BlockedBy[PreemptorKind] = BlockedBy()
        # Kinds of one application, by its ID.
        self._alone: dict[str, dict[PreemptorKind, None]] = {}
        self._by_queue: dict[Queue, dict[PreemptorKind, None]] = {}
        # The number of asks in all groups, and at most how many of them are finished.
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
            heappush(self._ready, kind)  # its first turn finds out when it is due
        elif group.queue is not queue:  # the queue was removed and added again
            self._unlist(group)
            group.queue = queue
            self._by_queue.setdefault(queue, {})[kind] = None
        self.held -= len(group.asks)
        group.add_ask(ask)
        self.held += len(group.asks)
        if group.due_ms > ask.at_ms and group.seqs[0] == ask.seq:  # an ask came back that is older than the others
            self._schedule_turn(group, ask.at_ms)

    def begin_pass(self) -> None:
        """Make the kinds ready that the last pass passed over."""
        for kind in self._passed:
            heappush(self._ready, kind)
        self._passed.clear()

    def due_since(self, interval_ms: int, head: PendingAsk) -> int:
        """Since when the ask whose turn it is, `head`, has been due, in ms."""
        return self.groups[self._ready[0]].due_at_ms(head, interval_ms)

    def pass_over(self) -> None:
        """Skip the ask whose turn it is until the next pass."""
        self._passed.append(heappop(self._ready))

    def next_ask(self, interval_ms: int, now_ms: int) -> PendingAsk | None:
        """The ask whose turn it is; None if no ask is due. It keeps its turn until preemption starts for it or is
        refused."""
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
                if (group.queue.path, (group.kind.resource, "", head.ask.priority)) in self._index.partition.set_aside:
                    self._set_aside[group.kind] = None
            else:
                return head
        return None

    def _limit_of(self, ask: PendingAsk) -> Queue | Tracker | Application | None:
        """Why the ask could not be allocated even without the victims: a limit, or another application's turn (then its
        own application). None: it could."""
        limit = limit_of(ask)
        if limit is None and self._index.holds_back(ask.application):
            return ask.application
        return limit

    def count_finished(self) -> None:
        """Count an ask that is finished. Finished asks are dropped when they outnumber the others: one ask that waits
        for long must not keep all that came after it in memory."""
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
        """The limit has room or a slot: kinds that it limits are ready."""
        for kind in self.limited.blocked_at(limit):
            self._make_ready(kind)

    def wake_application(self, application: Application) -> None:
        """Other limits apply to the application, or none."""
        for kind in self._alone.get(application.id, ()):
            if kind in self.limited:
                self._make_ready(kind)

    def node_not_set_aside(self) -> None:
        """A node is no longer set aside for another ask: kinds that waited for that are ready."""
        for kind in self._set_aside:
            group = self.groups.get(kind)
            if group is not None and group.due_ms >= 0:
                group.due_ms = -1
                heappush(self._ready, kind)
        self._set_aside.clear()

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
        """Drop all asks of the queue. Its entries among ready and waiting kinds are dropped when they come up."""
        for kind in list(self._by_queue.get(queue, ())):
            self.limited.unblock(kind)
            self._forget_kind(kind)
        if len(self._ready) + len(self._waiting) > 4 * len(self.groups) + LEFTOVERS:
            self._sift()

    def forget_application(self, queue: Queue, application: Application) -> None:
        """Drop the asks of an application that was in the queue. O(asks of the application)."""
        for ask in application.asks.values():
            for application_id in ("", application.id):
                kind = PreemptorKind(-ask.ask.priority, queue.path, items_of(ask.ask.resource), application_id)
                group = self.groups.get(kind)
                if group is not None and group.asks.pop(ask.seq, None) is not None:
                    self.held -= 1

    def _schedule_turn(self, group: PreemptorGroup, due_ms: int) -> None:
        group.due_ms = due_ms
        heappush(self._waiting, (due_ms, group.kind))

    def known_seqs(self) -> set[int]:
        """The age of every ask that has or will have a turn, for `check`."""
        return {ask.seq for group in self.groups.values() for ask in group.asks.values() if ask.pending}
