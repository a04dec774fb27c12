"""Which ask may try to preempt next (semantics sections 10 and 13).

    Preemptors        asks that preempt on any node, as the last step of a pass, in groups of equal asks
    BoundPreemptors   asks that are bound to a node, and preempt there in their turn among all other asks

`cycle/preempt.py` makes the attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from remuda_proto.constants import MAX_RUNTIME

from ..costs import bound_ms
from ..limits import BOUND_ATTEMPTS_PER_PASS, LEFTOVERS
from ..rules.devices import with_counts
from ..rules.keyed import unlist
from ..rules.leaving import needed_ms
from ..rules.properties import is_state_aware, preemption_delay_ms
from ..rules.required_node import required_node
from ..rules.resource import Items, Resource, items_of
from ..rules.topology import wish_of
from ..state import Application, Node, Partition, PendingAsk, Queue
from .limits import BlockedBy, BlockingLimit, limit_of
from .node_groups import Demand
from .nodes import NodeIndex
from .ordered import covers
from .reservations import Reservations, ReservingDemands


class Index(Protocol):
    """The index of the partition, as preemptors see it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def reservations(self) -> Reservations: ...
    def awaits_place(self, ask: PendingAsk) -> bool: ...
    def holds_back(self, application: Application) -> bool: ...
    def find_demand(self, ask: PendingAsk) -> Demand | None: ...
    def measure(self) -> None: ...
    @property
    def reserving(self) -> ReservingDemands: ...


class PreemptorKind(NamedTuple):
    """The properties that the asks of a group share. Kinds sort in the order of their turns."""

    negated_priority: int
    path: str
    resource: Items
    # Set if limits or turns apply to the application: then its asks are like no other application's. Else empty.
    application_id: str
    # Of members of a group that wants something of the topology: application and name. Else empty.
    group: str = ""


@dataclass(slots=True, eq=False)
class PreemptorGroup:
    """The asks of one kind: if nothing can be preempted for one of them, nothing can be for the others."""

    kind: PreemptorKind
    queue: Queue
    # The asks by age, and a heap of their ages. Asks that were allocated or withdrawn are dropped when they are next.
    asks: dict[int, PendingAsk] = field(default_factory=dict)
    seqs: list[int] = field(default_factory=list)
    # When the turn of the group comes, in ms. -1: it is not among the waiting groups.
    due_ms: int = -1

    def add_ask(self, ask: PendingAsk) -> None:
        if ask.seq not in self.asks:
            heappush(self.seqs, ask.seq)
        self.asks[ask.seq] = ask

    def drop_finished(self) -> None:
        """Drop asks of which nothing is pending."""
        self.asks = {seq: ask for seq, ask in self.asks.items() if ask.pending}
        self.seqs = sorted(self.asks)

    def first_ask(self, index: Index) -> PendingAsk | None:
        """The oldest ask that may preempt; None if there is none."""
        while self.seqs:
            ask = self.asks.get(self.seqs[0])
            if ask is not None and ask.pending and ask.preemption is None and not index.awaits_place(ask):
                return ask
            self.asks.pop(heappop(self.seqs), None)
        return None

    def due_at_ms(self, head: PendingAsk, interval_ms: int) -> int:
        """When an attempt for `head`, the first ask, is due, in ms. `interval_ms`: after a refused attempt."""
        refused_ms = self.queue.refusals.get((self.kind.resource, self.kind.group, head.ask.priority))
        first_ms = head.at_ms + preemption_delay_ms(self.queue.settings.properties)
        return first_ms if refused_ms is None else max(first_ms, refused_ms + interval_ms)


def can_preempt(ask: PendingAsk) -> bool:
    """Whether the ask allows itself to preempt, and a queue on its path has guaranteed resources."""
    return bool(ask.ask.allow_preempt_other) and any(
        queue.settings.guaranteed for queue in ask.application.queue.path_to_root
    )


def alike(partition: Partition, ask: PendingAsk, queue: Queue | None = None) -> Items:
    """The amounts by which asks that may preempt are alike. `queue`: the one in which the ask was; None: is."""
    return items_of(amounts_alike(partition, ask, queue))


def amounts_alike(partition: Partition, ask: PendingAsk, queue: Queue | None = None) -> Resource:
    """The resource of the ask, with the number of devices that it wants and, where nodes leave or budgets are, with its
    bound in ms, as amounts of their tags: a node may stay long enough, or a budget last, for one ask, and not for
    another."""
    tags = ask.ask.tags
    amounts = with_counts(partition.settings.devices, ask.ask.resource, tags)
    queue = queue or ask.application.queue
    if queue.budgets:
        lasts_ms = bound_ms(ask.application, ask.ask, queue)
    else:
        lasts_ms = needed_ms(tags, ask.ask.execution_timeout_ms) if partition.audiences else 0
    return {**amounts, MAX_RUNTIME: lasts_ms} if lasts_ms else amounts


def preemptor_kind(partition: Partition, ask: PendingAsk) -> PreemptorKind:
    """The kind of an ask that may preempt."""
    application = ask.application
    queue = application.queue
    alone = application.trackers or application.application_limits or is_state_aware(queue.settings.properties)
    alone = alone or (ask.ask.placeholder and bool(queue.budgets))
    group = group_label(ask)
    return PreemptorKind(
        -ask.ask.priority,
        queue.path,
        alike(partition, ask),
        application.id if alone or group else "",
        group,
    )


def group_label(ask: PendingAsk) -> str:
    """The application and the name of the group of the ask; empty: it wants nothing of the topology."""
    fact, tags = ask.ask, ask.application.tags
    wish = wish_of(fact.tags, tags, fact.task_group, fact.allocation_key) if fact.tags or tags else None
    return f"{ask.application.id}/{wish.group}" if wish is not None else ""


class Preemptors:
    """The asks of a partition that may preempt on any node, in groups of equal asks. O(log groups) for each ask.

    Asks of one leaf queue with the same resource and priority form a group, so one attempt answers for all. A group is
    due when its oldest ask has waited for the `preemption.delay` of the queue, and again an interval after an attempt
    was refused, or as soon as a node is no longer set aside for another ask, if that is why. Due groups take turns by
    priority. An ask preempts for one of its allocations at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.groups: dict[PreemptorKind, PreemptorGroup] = {}
        # A heap of the kinds that are not due, by the time of their turn in ms; and a heap of those that are. An entry
        # counts only if the kind still has a group, and in `_waiting` only if the group has that time.
        self._waiting: list[tuple[int, PreemptorKind]] = []
        self._ready: list[PreemptorKind] = []
        # Ready kinds that were passed over in this pass.
        self._passed: list[PreemptorKind] = []
        # Waiting kinds that are ready as soon as a node is no longer set aside for another ask.
        self._set_aside: dict[PreemptorKind, None] = {}
        # Kinds that a limit keeps from being allocated.
        self.limited: BlockedBy[PreemptorKind] = BlockedBy()
        # Kinds of one application, by its ID.
        self._alone: dict[str, dict[PreemptorKind, None]] = {}
        self._by_queue: dict[Queue, dict[PreemptorKind, None]] = {}
        # The number of asks in all groups, and at most how many of them are finished.
        self.held = self._over = 0

    def add_ask(self, ask: PendingAsk) -> None:
        """Add an ask. Does nothing if it may not preempt."""
        if not can_preempt(ask):
            return
        queue = ask.application.queue
        kind = preemptor_kind(self._index.partition, ask)
        group = self.groups.get(kind)
        if group is None:
            group = self.groups[kind] = PreemptorGroup(kind, queue)
            self._by_queue.setdefault(queue, {})[kind] = None
            if kind.application_id:
                self._alone.setdefault(kind.application_id, {})[kind] = None
            heappush(self._ready, kind)  # its first turn finds out when it is due
        elif group.queue is not queue:  # the queue was removed and added again
            unlist(self._by_queue, group.queue, kind)
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
        """The time since which the ask whose turn it is, `head`, has been due, in ms."""
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
                like = (group.kind.resource, group.kind.group, head.ask.priority)
                if (group.queue.path, like) in self._index.partition.set_aside:
                    self._set_aside[group.kind] = None
            else:
                return head
        return None

    def _limit_of(self, ask: PendingAsk) -> BlockingLimit | None:
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

    def wake_at(self, limit: BlockingLimit) -> None:
        """Make the kinds ready that the limit has blocked: it has room or a slot."""
        for kind in self.limited.blocked_at(limit):
            self._make_ready(kind)

    def wake_application(self, application: Application) -> None:
        """Make the kinds of the application ready that a limit has blocked: other limits may apply to it now."""
        for kind in self._alone.get(application.id, ()):
            if kind in self.limited:
                self._make_ready(kind)

    def node_not_set_aside(self) -> None:
        """Make the kinds ready that waited for this: a node is no longer set aside for another ask."""
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
        unlist(self._by_queue, group.queue, kind)
        if kind.application_id:
            unlist(self._alone, kind.application_id, kind)

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
                like = alike(self._index.partition, ask, queue)
                kind = PreemptorKind(-ask.ask.priority, queue.path, like, application_id, group_label(ask))
                group = self.groups.get(kind)
                if group is not None and group.asks.pop(ask.seq, None) is not None:
                    self.held -= 1

    def _schedule_turn(self, group: PreemptorGroup, due_ms: int) -> None:
        group.due_ms = due_ms
        heappush(self._waiting, (due_ms, group.kind))

    def known_seqs(self) -> set[int]:
        """The age of every ask that has or will have a turn, for `check`."""
        return {ask.seq for group in self.groups.values() for ask in group.asks.values() if ask.pending}


class BoundPreemptors:
    """The asks of a partition that are bound to a node and may preempt there.

    Such an ask preempts in its turn among all other asks: when it reserves its node, or when too little of the cluster
    is free for a reservation. Once the node is reserved for it, it preempts in the first step of a pass, before asks
    without reservations. A refused attempt is repeated after an interval, or when something changes on the node."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Nodes that are reserved for an ask bound to them, and changed: the ask may be able to preempt there now.
        self.changed: dict[Node, None] = {}
        # Asks to be tried again: a heap of (time in ms, age, number, ask), and the time of each ask that counts. An ask
        # that was changed has the age of the one before, so each entry has a number.
        self._again: list[tuple[int, int, int, PendingAsk]] = []
        self._entries = 0
        self.retries: dict[PendingAsk, int] = {}
        self._attempts_left = 0

    def begin_pass(self, now_ms: int) -> None:
        """Allow a new number of attempts, and look again at the asks whose time has come."""
        self._attempts_left = BOUND_ATTEMPTS_PER_PASS
        while self._again and self._again[0][0] <= now_ms:
            at_ms, _, _, ask = heappop(self._again)
            if self.retries.get(ask) == at_ms:
                del self.retries[ask]
                self._retry(ask)

    def _retry(self, ask: PendingAsk) -> None:
        demand = self._index.find_demand(ask)
        if not ask.pending or demand is None:
            return
        for node_id in ask.reservations:
            self.node_changed(self._index.partition.nodes[node_id])
        if ask.free:
            self._index.reserving.reserve_again(demand)

    def node_changed(self, node: Node) -> None:
        """Note that the node was reserved, that its room changed, or that a limit gave way for the ask it is reserved
        for."""
        ask = node.reservation
        if ask is not None and required_node(ask.ask.tags) == node.id:
            self.changed[node] = None

    def preempting_where_reserved(self, interval_ms: int, now_ms: int) -> Iterator[PendingAsk]:
        """The asks that may preempt on the node that is reserved for them now, in the order of queues."""
        if not self.changed:
            return
        index = self._index
        index.measure()
        nodes = sorted(self.changed, key=index.reservations.ask_rank)
        for node in nodes:
            if not self._attempts_left:
                return  # the others stay for the next pass
            del self.changed[node]
            ask = node.reservation
            if (
                ask is not None
                and not index.reservations.held_back(node)
                and self.may_preempt(ask, node, interval_ms, now_ms)
            ):
                yield ask

    def may_preempt(self, ask: PendingAsk, node: Node, interval_ms: int, now_ms: int) -> bool:
        """Whether the ask may try to preempt on the node now; counts the attempt if it may. If it is too early, the ask
        is looked at again when it is time."""
        demand = self._index.find_demand(ask)
        if not ask.pending or ask.preemption is not None or demand is None or not node.ready or node.id in ask.refused:
            return False
        if covers(self._index.nodes.available(node), demand.need):
            return False
        if node.reservation is not None and node.reservation is not ask and bound_to(node.reservation):
            return False
        refused_ms = ask.application.queue.refusals.get((alike(self._index.partition, ask), node.id, ask.ask.priority))
        if refused_ms is not None and refused_ms + interval_ms > now_ms:
            self.retry_at(ask, refused_ms + interval_ms)
            return False
        if not self._attempts_left:
            self.retry_at(ask, now_ms)
            return False
        self._attempts_left -= 1
        self.retry_at(ask, now_ms + interval_ms)  # should it be refused
        return True

    def retry_at(self, ask: PendingAsk, until_ms: int) -> None:
        """Look at the ask again at this time, unless that happens earlier anyway."""
        if self.retries.get(ask, until_ms + 1) > until_ms:
            self.retries[ask] = until_ms
            self._entries += 1
            heappush(self._again, (until_ms, ask.seq, self._entries, ask))


def bound_to(ask: PendingAsk) -> str:
    """The ID of the node that the ask is bound to; empty: none."""
    return required_node(ask.ask.tags)


def preempts_in_turn(
    partition: Partition, bound: BoundPreemptors, ask: PendingAsk, interval_ms: int, now_ms: int
) -> bool:
    """Whether an ask whose turn it is, and that found no room on its node, may try to preempt there. The node is
    reserved for it, or could not be reserved because too little of the partition is free."""
    node = partition.nodes.get(bound_to(ask))
    return node is not None and bound.may_preempt(ask, node, interval_ms, now_ms)
