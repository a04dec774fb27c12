"""The projection of a log's facts into hourly use. Pure: time is that of the commits.

A row does not follow each allocation through the hours. It keeps what its allocations use now (`used`), and a sum to
which an allocation that begins `x` ms after the begin of the hour adds `-amount * x`, and one that ends then
`amount * x`. At the end of the hour `used * 1 h` is added. So an hour costs a step per row, a fact costs a step per
resource, and all amounts are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from remuda_events import limits
from remuda_operations.ledger import hours
from remuda_operations.ledger.hours import HOUR_MS, Amounts, Row, RowKey, Tags
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

REPLAY: Final = "replay"  # of a registration: the state stays
FAILING: Final = ("Failing", "Failed")
# A tag of an ask or its application: what it has done is not lost with a preemption.
CHECKPOINTED: Final = "remuda/checkpointed"
_NO: Final = ("", "false", "no", "0")


class ClosedHour(NamedTuple):
    """`hour_ms`: its begin."""

    hour_ms: int
    rows: list[Row]


class ClosedDay(NamedTuple):
    """The sums of the closed hours of a day. `day_ms`: its begin."""

    day_ms: int
    rows: list[Row]


class OpenRow:
    """A row of the hour that is not closed yet. `held`: how many allocations and reservations book there."""

    __slots__ = ("amounts", "held", "key", "used")

    def __init__(self, key: RowKey, amounts: Amounts | None = None) -> None:
        self.key = key
        self.held = 0
        self.used: Amounts = {}
        self.amounts: Amounts = amounts or {}

    def hold(self, resource: Mapping[str, int]) -> None:
        self.held += 1
        add(self.used, resource, 1)

    def begin(self, resource: Mapping[str, int], into_ms: int) -> None:
        """`into_ms`: since the begin of the hour."""
        self.hold(resource)
        add(self.amounts, resource, -into_ms)

    def end(self, resource: Mapping[str, int], into_ms: int) -> None:
        self.held -= 1
        add(self.used, resource, -1)
        add(self.amounts, resource, into_ms)

    def repeat(self, resource: Mapping[str, int], lasted_ms: int) -> None:
        add(self.amounts, resource, lasted_ms)

    def close(self) -> Amounts:
        """The amounts of the hour that ends. The next hour begins with what is used now."""
        used = without_zeros(self.used)
        closed = self.amounts
        for name, amount in used.items():
            closed[name] = closed.get(name, 0) + amount * HOUR_MS
        self.used, self.amounts = used, {}
        return without_zeros(closed)


class Running:
    """An allocation that runs, or room that is held while an RM is asked whether its predicates allow one.
    `is_work`: an allocation, which may be lost."""

    __slots__ = ("checkpointed", "is_work", "node", "placeholder", "resource", "row", "since_ms")

    def __init__(
        self,
        row: OpenRow,
        resource: Amounts,
        since_ms: int,
        node: str,
        placeholder: bool,
        checkpointed: bool,
        is_work: bool,
    ) -> None:
        self.row, self.resource, self.since_ms, self.node = row, resource, since_ms, node
        self.placeholder, self.checkpointed, self.is_work = placeholder, checkpointed, is_work


class Application:
    """`gang`: it has placeholders. `failing`: it has failed, so what it had was in vain. `running`: by UUID, or by the
    number of a question. `questions`: the keys of the asks that these are about. `reserved`: the nodes that are
    reserved for it."""

    __slots__ = ("failing", "gang", "id", "partition", "questions", "queue", "reserved", "running", "tags", "user")

    def __init__(
        self, partition: str, application_id: str, queue: str, user: str, tags: Mapping[str, str], gang: bool
    ) -> None:
        self.partition, self.id = partition, application_id
        self.queue, self.user, self.tags, self.gang = queue, user, tags, gang
        self.failing = False
        self.running: dict[str, Running] = {}
        self.questions: dict[str, str] = {}
        self.reserved: dict[str, Node] = {}


class Node:
    """`room`: its capacity without what others occupy. `used`: what runs or is held there. `rejected`: what runs there
    and could not be booked. `reservation`: who the node is reserved for."""

    __slots__ = ("rejected", "reservation", "room", "used")

    def __init__(self) -> None:
        self.room: Amounts = {}
        self.used: Amounts = {}
        self.rejected: Amounts = {}
        self.reservation: Reservation | None = None


class Reservation:
    """`idle`: what is free on the node, of what the reserved ask needs."""

    __slots__ = ("application", "idle", "need", "row")

    def __init__(self, application: Application, row: OpenRow, need: Amounts) -> None:
        self.application, self.row, self.need = application, row, need
        self.idle: Amounts = {}


class Dropped(NamedTuple):
    """An allocation that the RM did not report when it registered anew, or not yet."""

    resource: Amounts
    at_ms: int


class Projection:
    """`listed_tags`: the names of tags by which rows are told apart. `at_ms`: the time of the last commit; 0: none yet.
    `hour_ms`: the begin of the hour that is not closed. `begun_ms`: when the ledger begins. `day`: the sums of the
    closed hours of the day that begins at `day_ms`."""

    def __init__(self, listed_tags: Iterable[str] = ()) -> None:
        self.listed_tags = tuple(sorted(set(listed_tags)))
        self.at_ms = self.hour_ms = self.begun_ms = 0
        self.rows: dict[RowKey, OpenRow] = {}
        self.applications: dict[tuple[str, str], Application] = {}
        self.nodes: dict[tuple[str, str], Node] = {}
        self.dropped: dict[str, Dropped] = {}
        self.day_ms = 0
        self.day: dict[RowKey, Amounts] = {}
        self._into_ms = 0

    def apply(self, commit: log_pb2.Commit) -> Iterator[ClosedHour | ClosedDay]:
        """Follow a commit. Yields the hours that it closes and in which there is anything, the oldest first, and each
        day behind its hours; they have to be taken all."""
        yield from self.advance(commit.now_ms)
        for decision in commit.decisions:
            for message in decision.facts:
                kind = message.WhichOneof("fact")
                if kind is not None and (follow := FOLLOWED.get(kind)) is not None:
                    follow(self, getattr(message, kind))

    def advance(self, now_ms: int) -> Iterator[ClosedHour | ClosedDay]:
        """Time passes. A clock that went back stands still."""
        if not self.begun_ms:
            self.begun_ms, self.hour_ms = now_ms, hours.hour_of(now_ms)
        self.at_ms = max(self.at_ms, now_ms)
        while self.at_ms >= self.hour_ms + HOUR_MS:
            if (closed := self._close()).rows:
                yield closed
            if not self.rows:  # nothing happens in the hours in between
                self.hour_ms = hours.hour_of(self.at_ms)
            yield from self._close_day()
        self.resume()

    def close_ahead(self) -> Iterator[ClosedHour | ClosedDay]:
        """Close the hour without a commit behind it. If one comes all the same that is of that hour, what it changes
        is made up for in the hour behind it: sums of all hours stay exact."""
        if (closed := self._close()).rows:
            yield closed
        yield from self._close_day()
        self.resume()

    def resume(self) -> None:
        """Follow what `at_ms` and `hour_ms` are. The hour may begin behind that time."""
        self._into_ms = self.at_ms - self.hour_ms

    def _close(self) -> ClosedHour:
        rows = [Row(key, amounts) for key, row in self.rows.items() if (amounts := row.close())]
        self.rows = {key: row for key, row in self.rows.items() if row.held}
        closed = ClosedHour(self.hour_ms, rows)
        self.day_ms = hours.day_of(self.hour_ms)
        for key, amounts in rows:
            add(self.day.setdefault(within_bound(self.day, key), {}), amounts, 1)
        self.hour_ms += HOUR_MS
        forgotten_ms = self.hour_ms - limits.UNREPORTED_FOR_MS
        if self.dropped:
            self.dropped = {uuid: one for uuid, one in self.dropped.items() if one.at_ms > forgotten_ms}
        return closed

    def _close_day(self) -> Iterator[ClosedDay]:
        if self.day and hours.day_of(self.hour_ms) > self.day_ms:
            rows = [Row(key, kept) for key, sums in self.day.items() if (kept := without_zeros(sums))]
            self.day = {}
            if rows:
                yield ClosedDay(self.day_ms, rows)

    def row(self, key: RowKey) -> OpenRow:
        found = self.rows.get(key)
        if found is None:
            key = within_bound(self.rows, key)
            found = self.rows.get(key) or self.rows.setdefault(key, OpenRow(key))
        return found

    def _row_of(self, application: Application, kind: str, tags: Mapping[str, str] | None = None) -> OpenRow:
        return self.row(RowKey(
            application.partition, application.queue, application.user, self._tags(application, tags or {}),
            application.id, kind,
        ))  # fmt: skip

    def _tags(self, application: Application, tags: Mapping[str, str]) -> Tags:
        listed = ((name, tags.get(name) or application.tags.get(name, "")) for name in self.listed_tags)
        return tuple((name, value) for name, value in listed if value)

    def add_rows(self, before: Projection) -> None:
        """Add the open hour of another projection, which ends where this one begins."""
        for key, row in before.rows.items():
            add(self.row(key).amounts, row.amounts, 1)
        self.day_ms, self.day = before.day_ms, before.day

    # Applications

    def accepted(self, fact: log_pb2.ApplicationAccepted) -> None:
        self.applications[fact.partition, fact.application_id] = Application(
            plain(fact.partition), fact.application_id, fact.queue, fact.user, self._kept(fact.tags),
            bool(fact.placeholder_ask.resources),
        )  # fmt: skip

    def _kept(self, tags: Mapping[str, str]) -> dict[str, str]:
        return {name: tags[name] for name in (*self.listed_tags, CHECKPOINTED) if name in tags}

    def moved(self, fact: log_pb2.ApplicationMoved) -> None:
        application = self.applications[fact.partition, fact.application_id]
        application.queue = fact.queue
        for one in application.running.values():
            if one.row.key.queue == hours.OTHERS:
                continue
            one.row.end(one.resource, self._into_ms)
            one.row = self.row(one.row.key._replace(queue=fact.queue, application=application.id))
            one.row.begin(one.resource, self._into_ms)
        for node in application.reserved.values():
            self._reserve(node, application)

    def changed_state(self, fact: log_pb2.ApplicationStateChanged) -> None:
        application = self.applications.get((fact.partition, fact.application_id))
        if application is not None and fact.state in FAILING and application.gang:
            application.failing = True

    def removed(self, fact: log_pb2.ApplicationRemoved) -> None:
        application = self.applications.pop((fact.partition, fact.application_id), None)
        if application is not None:
            for name in list(application.running):
                self._end(fact.partition, application, name)

    # Allocations

    def allocated(self, fact: log_pb2.Allocated) -> None:
        allocation = fact.allocation
        if fact.question:
            application = self.applications[allocation.partitionName, allocation.applicationID]
            self._answer(allocation.partitionName, application, question(fact.question))
        self.begins(allocation, self.at_ms)

    def recovered(self, fact: log_pb2.AllocationRecovered | log_pb2.GuestKept) -> None:
        """An allocation that was booked before the RM registered anew: what it used meanwhile is not known."""
        inner = fact.allocation
        allocation = inner.allocation if isinstance(inner, log_pb2.Allocated) else inner
        running = self.begins(allocation, self.at_ms)
        before = self.dropped.pop(allocation.UUID, None)
        if before is not None and 0 < self.at_ms - before.at_ms < limits.UNREPORTED_FOR_MS:
            row = self.row(running.row.key._replace(kind=hours.UNREPORTED))
            row.repeat(before.resource, self.at_ms - before.at_ms)

    def begins(self, allocation: si.Allocation, since_ms: int) -> Running:
        """`since_ms`: when it began, of which only what comes from now on is counted."""
        return self._begin(
            allocation.partitionName, allocation.applicationID, allocation.UUID,
            amounts_of(allocation.resourcePerAlloc), allocation.nodeID, since_ms, allocation.allocationTags,
            allocation.placeholder, is_work=True,
        )  # fmt: skip

    def asked(self, fact: log_pb2.PredicateAsked) -> None:
        """Room is held as if it were allocated, in quotas, too."""
        self._begin(
            fact.partition, fact.application_id, question(fact.question), amounts_of(fact.resource), fact.node_id,
            self.at_ms, fact.tags, False, is_work=False,
        )  # fmt: skip
        application = self.applications[fact.partition, fact.application_id]
        application.questions[question(fact.question)] = fact.allocation_key

    def answered(self, fact: log_pb2.PredicateRefused | log_pb2.PredicateWithdrawn) -> None:
        application = self.applications[fact.partition, fact.application_id]
        if question(fact.question) in application.running:  # it was not about a replacement, which holds no quota
            self._answer(fact.partition, application, question(fact.question))

    def ask_ends(self, fact: log_pb2.AskReleased) -> None:
        self._drop_questions(fact.partition, fact.application_id, fact.allocation_key)

    def ask_changed(self, fact: log_pb2.AskChanged) -> None:
        self._drop_questions(fact.ask.partitionName, fact.ask.applicationID, fact.ask.allocationKey)

    def _drop_questions(self, partition: str, application_id: str, key: str) -> None:
        """Questions end with the ask that they are about."""
        application = self.applications.get((partition, application_id))
        if application is not None and application.questions:
            for name in [name for name, asked in application.questions.items() if asked == key]:
                self._answer(partition, application, name)

    def _answer(self, partition: str, application: Application, name: str) -> None:
        del application.questions[name]
        self._end(partition, application, name)

    def released(self, fact: log_pb2.AllocationReleased) -> None:
        application = self.applications[fact.partition, fact.application_id]
        running = self._end(fact.partition, application, fact.uuid)
        kind = wasted(application, running, fact.termination_type)
        if kind:
            row = self.row(running.row.key._replace(kind=kind))
            row.repeat(running.resource, self.at_ms - running.since_ms)

    def replaced(self, fact: log_pb2.PlaceholderReplaced) -> None:
        real = fact.allocation.allocation
        self._end(real.partitionName, self.applications[real.partitionName, real.applicationID], fact.placeholder)
        self.begins(real, self.at_ms)

    def _begin(
        self, partition: str, application_id: str, name: str, resource: Amounts, node: str, since_ms: int,
        tags: Mapping[str, str], placeholder: bool, is_work: bool,
    ) -> Running:  # fmt: skip
        application = self.applications[partition, application_id]
        row = self._row_of(application, hours.GANG if placeholder else hours.USED, tags)
        given = tags.get(CHECKPOINTED, application.tags.get(CHECKPOINTED, ""))
        running = Running(row, resource, since_ms, node, placeholder, given.lower() not in _NO, is_work)
        application.running[name] = running
        application.gang |= placeholder
        row.begin(resource, self._into_ms)
        self._use(self.node(partition, node), resource, 1)
        return running

    def _end(self, partition: str, application: Application, name: str) -> Running:
        running = application.running.pop(name)
        running.row.end(running.resource, self._into_ms)
        self._use(self.node(partition, running.node), running.resource, -1)
        return running

    # Nodes and their reservations

    def node(self, partition: str, node_id: str) -> Node:
        """An allocation may be known before its node."""
        node = self.nodes.get((partition, node_id))
        if node is None:
            node = self.nodes[partition, node_id] = Node()
        return node

    def _use(self, node: Node, resource: Amounts, times: int) -> None:
        add(node.used, resource, times)
        if node.reservation is not None:
            self._keep(node, node.reservation)

    def node_known(self, fact: log_pb2.NodeAdded | log_pb2.NodeChanged) -> None:
        node = self.node(fact.partition, fact.node_id)
        occupied = amounts_of(fact.occupied)
        capacity = amounts_of(fact.capacity)
        node.room = {name: amount - occupied.get(name, 0) for name, amount in capacity.items()}
        if node.reservation is not None:
            self._keep(node, node.reservation)

    def node_removed(self, fact: log_pb2.NodeRemoved) -> None:
        node = self.nodes.get((fact.partition, fact.node_id))
        if node is not None:
            self._unreserve(node, fact.node_id)
            if any(node.used.values()):  # guests stay
                node.room, node.rejected = {}, {}
            else:
                del self.nodes[fact.partition, fact.node_id]

    def rejected(self, fact: log_pb2.ExistingAllocationRejected) -> None:
        allocation = fact.allocation.allocation
        self._reject(allocation.partitionName, allocation.nodeID, amounts_of(allocation.resourcePerAlloc), 1)

    def rejected_forgotten(self, fact: log_pb2.RejectedAllocationForgotten) -> None:
        self._reject(fact.partition, fact.node_id, amounts_of(fact.resource), -1)

    def _reject(self, partition: str, node_id: str, resource: Amounts, times: int) -> None:
        node = self.node(partition, node_id)
        add(node.rejected, resource, times)
        if node.reservation is not None:
            self._keep(node, node.reservation)

    def reserved(self, fact: log_pb2.NodeReserved) -> None:
        self.reserve(fact.partition, fact.node_id, fact.application_id, amounts_of(fact.resource))

    def reserve(self, partition: str, node_id: str, application_id: str, need: Amounts) -> None:
        node, application = self.node(partition, node_id), self.applications[partition, application_id]
        self._unreserve(node, node_id)
        node.reservation = Reservation(application, self._row_of(application, hours.KEPT), need)
        node.reservation.row.hold({})
        application.reserved[node_id] = node
        self._keep(node, node.reservation)

    def _reserve(self, node: Node, application: Application) -> None:
        """The application of the reservation is in another queue."""
        was = node.reservation
        assert was is not None, "nodes of an application are reserved"
        was.row.end(was.idle, self._into_ms)
        was.row, was.idle = self._row_of(application, hours.KEPT), {}
        was.row.hold({})
        self._keep(node, was)

    def unreserved(self, fact: log_pb2.NodeUnreserved) -> None:
        node = self.nodes.get((fact.partition, fact.node_id))
        if node is not None:
            self._unreserve(node, fact.node_id)

    def _unreserve(self, node: Node, node_id: str) -> None:
        reservation, node.reservation = node.reservation, None
        if reservation is not None:
            reservation.row.end(reservation.idle, self._into_ms)
            reservation.application.reserved.pop(node_id, None)

    def _keep(self, node: Node, reservation: Reservation) -> None:
        """Follow what is free on a reserved node."""
        idle = {
            name: min(amount, free)
            for name, amount in reservation.need.items()
            if (free := node.room.get(name, 0) - node.used.get(name, 0) - node.rejected.get(name, 0)) > 0
        }
        if idle != reservation.idle:
            reservation.row.end(reservation.idle, self._into_ms)
            reservation.row.begin(idle, self._into_ms)
            reservation.idle = idle

    # Registrations

    def registered(self, fact: log_pb2.RmRegistered) -> None:
        if fact.resync != REPLAY:
            self.forget_state()

    def stopped(self, fact: log_pb2.RmStopped) -> None:
        if fact.deregistered:
            self.forget_state()

    def forget_state(self) -> None:
        """The RM reports everything anew. What it does not report no longer runs."""
        for (_, node_id), node in self.nodes.items():
            self._unreserve(node, node_id)
        for (partition, _), application in self.applications.items():
            for name in list(application.running):
                running = self._end(partition, application, name)
                if running.is_work:
                    self.dropped[name] = Dropped(running.resource, self.at_ms)
        self.applications.clear()
        self.nodes.clear()


def wasted(application: Application, running: Running, termination: int) -> str:
    """The kind of waste that an allocation was that ends so; "": none."""
    if termination == si.PREEMPTED_BY_SCHEDULER:
        return "" if running.checkpointed else hours.LOST
    if application.failing or (running.placeholder and termination == si.TIMEOUT):
        return hours.FAILED
    return ""


def question(number: int) -> str:
    """The name of what a question holds: no UUID begins so."""
    return f"?{number}"


def plain(partition: str) -> str:
    """`default` of `[rm-1]default`."""
    return partition.partition("]")[2] or partition


def within_bound(rows: Mapping[RowKey, object], key: RowKey) -> RowKey:
    """The key of a row. Beyond the bound of rows it is one without its application, and then without any name: sums
    stay exact."""
    if key in rows or len(rows) < limits.LEDGER_ROWS:
        return key
    key = key._replace(application=hours.OTHERS)
    if key in rows or len(rows) < 2 * limits.LEDGER_ROWS:
        return key
    return RowKey("", hours.OTHERS, "", (), hours.OTHERS, key.kind)


def without_zeros(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def add(amounts: Amounts, resource: Mapping[str, int], times: int) -> None:
    for name, amount in resource.items():
        amounts[name] = amounts.get(name, 0) + amount * times


def amounts_of(resource: si.Resource) -> Amounts:
    return {name: quantity.value for name, quantity in resource.resources.items() if quantity.value}


FOLLOWED: Final[dict[str, Callable[[Projection, Any], None]]] = {
    "application_accepted": Projection.accepted,
    "application_moved": Projection.moved,
    "application_state_changed": Projection.changed_state,
    "application_removed": Projection.removed,
    "allocated": Projection.allocated,
    "allocation_recovered": Projection.recovered,
    "guest_kept": Projection.recovered,
    "allocation_released": Projection.released,
    "placeholder_replaced": Projection.replaced,
    "ask_released": Projection.ask_ends,
    "ask_changed": Projection.ask_changed,
    "predicate_asked": Projection.asked,
    "predicate_refused": Projection.answered,
    "predicate_withdrawn": Projection.answered,
    "node_added": Projection.node_known,
    "node_changed": Projection.node_known,
    "node_removed": Projection.node_removed,
    "existing_allocation_rejected": Projection.rejected,
    "rejected_allocation_forgotten": Projection.rejected_forgotten,
    "node_reserved": Projection.reserved,
    "node_unreserved": Projection.unreserved,
    "rm_registered": Projection.registered,
    "rm_stopped": Projection.stopped,
}
