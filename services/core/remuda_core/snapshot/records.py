"""The records of a snapshot: one for the RM, and one for each partition, queue, node, application, ask, allocation …

A record holds the fact with the same content, and beside it the changes by later facts. Each record comes behind those
that it refers to. A new field of a record has a default, which is its value in older snapshots.
"""

from __future__ import annotations

import msgspec

from .. import facts
from ..rules import connection
from ..rules.resource import Resource
from ..state import QuotaExcess


class Record(msgspec.Struct, frozen=True, gc=False):
    pass


class RmRecord(Record):
    registered: facts.RmRegistered | None = None
    configuration: facts.ConfigurationApplied | None = None
    now_ms: int = 0
    inbox_seq: int = 0
    request_seq: int = 0
    request_part: int = 0
    next_seq: int = 0
    next_allocation: int = 0
    next_question: int = 1
    registration: int = 0
    rm_state: str = connection.INIT
    life: int = 0


class WindowRecord(Record):
    """An entry of `Partition.windows`."""

    window: str
    from_ms: int
    until_ms: int
    open: bool = False


class PartitionRecord(Record):
    added: facts.PartitionAdded
    draining: bool = False
    preemption_refused_ms: int = 0
    last_asked: str = ""
    questions_paused: bool = False
    work: facts.WorkMeasured | None = None
    measured_ms: int = 0
    avoided: facts.DomainAvoided | None = None
    avoided_ms: int = 0
    windows: tuple[WindowRecord, ...] = ()


class Refusal(Record):
    """An entry of `Queue.refusals`."""

    resource: Resource
    required_node: str
    priority: int
    at_ms: int
    set_aside: bool = False


class QueueRecord(Record):
    added: facts.QueueAdded
    draining_since_ms: int = 0
    refusals: tuple[Refusal, ...] = ()
    drain_report_ms: int = 0
    excess: QuotaExcess | None = None


class NodeRecord(Record):
    added: facts.NodeAdded
    rejected: tuple[facts.ExistingAllocationRejected, ...] = ()
    left: bool = False
    windows: tuple[str, ...] = ()


class StateChange(Record):
    at_ms: int
    state: str


class ApplicationRecord(Record):
    """`log` ends with the present state; see `Application.log`."""

    accepted: facts.ApplicationAccepted
    seq: int
    at_ms: int
    log: tuple[StateChange, ...]
    resumed: bool = False
    counts_as_running: bool = False
    placeholders_until_ms: int = 0
    states_left_out: int = 0
    peak: Resource = {}


class LeftGuestRecord(Record):
    """An entry of `State.left_guests`."""

    accepted: facts.ApplicationAccepted
    queues: tuple[facts.QueueAdded, ...]
    allocations: tuple[facts.Allocated, ...]
    releases: tuple[facts.ReleaseRequested, ...] = ()


class WaitingSince(Record):
    """An entry of `PendingAsk.waiting`."""

    constraint: str
    where: str
    resource: str
    at_ms: int


class PastConstraint(Record):
    """An entry of `PendingAsk.past`."""

    constraint: str
    where: str
    resource: str
    since_ms: int
    ended_ms: int


class Promise(Record):
    """`Node.promise` of a node that is reserved for the ask."""

    node_id: str
    promised_ms: int
    first_ms: int
    changed_ms: int = 0
    cause: str = ""


class RuntimeRecord(Record):
    """An entry of `Partition.runtimes`: runs and their bounds, in ms, the oldest first."""

    partition: str
    user: str
    name: str
    ran_ms: tuple[int, ...]
    bound_ms: tuple[int, ...]


class AskRecord(Record):
    """`kept_by_preemption`: those of the `reservations` that a preemption has made. `reserved_ms`: since when each is
    reserved; empty in a snapshot of an earlier version."""

    ask: facts.Ask
    seq: int
    at_ms: int
    pending: int = 0
    asked: int = 0
    reservations: tuple[str, ...] = ()
    kept_by_preemption: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    refusal: str = ""
    refused_at_ms: int = 0
    waiting: tuple[WaitingSince, ...] = ()
    preempted_at_ms: int = 0
    past: tuple[PastConstraint, ...] = ()
    reserved_ms: tuple[int, ...] = ()
    timed_out_ms: int = 0
    timed_out_on: str = ""
    promises: tuple[Promise, ...] = ()
    expected_ms: int = 0
    spared: tuple[str, ...] = ()
    spared_until_ms: tuple[int, ...] = ()


class AllocationRecord(Record):
    fact: facts.Allocated
    at_ms: int
    asked_seq: int = 0
    releasing: int = 0
    releasing_ms: int = 0
    overdue: bool = False
    by_preemption: bool = False
    replaced: str = ""
    ask_over: bool = False
    asked_ms: int = 0
    until_ms: int = 0


class TaskGroupRecord(Record):
    partition: str
    application_id: str
    name: str
    min_resource: Resource
    count: int = 0
    replaced: int = 0
    timed_out: int = 0
    coming: int = 0
    leaving: int = 0
    free: tuple[str, ...] = ()


class PredicateVerdict(Record):
    """`until_ms`: 0: until the node changes."""

    node_id: str
    accepted: bool
    until_ms: int


class PredicateClassRecord(Record):
    """An entry of `Partition.predicate_classes`. `idle`: no ask of it is pending."""

    partition: str
    name: str
    verdicts: tuple[PredicateVerdict, ...] = ()
    refusal: str = ""
    until_ms: int = 0
    question: int = 0
    asked: tuple[str, ...] = ()
    answer_by_ms: int = 0
    idle: bool = False


class QuestionRecord(Record):
    fact: facts.PredicateAsked
    until_ms: int = 0


class ReplacementRecord(Record):
    """`ask`: the ask as it was, if the application no longer has it; otherwise None."""

    fact: facts.Allocated
    placeholder: str
    question: int = 0
    ask: AskRecord | None = None
    answer_by_ms: int = 0


class PreemptionRecord(Record):
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuids: tuple[str, ...]
    at_ms: int
    question: int = 0
    nodes: tuple[str, ...] = ()
    domain: str = ""
    members: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


class RejectionRecord(Record):
    fact: facts.ApplicationRejected
    at_ms: int


class HoldRecord(Record):
    """An entry of `State.holds`."""

    held: facts.QueueHeld
    at_ms: int


class DrainRecord(Record):
    """An entry of `State.drains`."""

    draining: facts.NodeDraining | facts.NodeLeaving
    at_ms: int


class LoanRecord(Record):
    """An entry of `State.loans`."""

    lent: facts.QuotaLent
    at_ms: int


class ActionRecord(Record):
    """An entry of `State.actions`."""

    outcome: facts.ActionTaken | facts.ActionRefused
    at_ms: int = 0


class Used(Record):
    """Use of a resource. `sum`: hexadecimal digits, because it has more bits than an integer of protobuf."""

    resource: str
    sum: str


class AccountRecord(Record):
    """The past of an account. What it uses now follows from other records. `kind`: "queue", "user" or "application".
    `name`: the user or the application."""

    partition: str
    queue: str
    kind: str
    name: str
    half_life_ms: int
    at_ms: int
    past: tuple[Used, ...] = ()


class BudgetRecord(Record):
    """A budget, its use in base units * ms. The amounts that it bounds follow from its queue. `gone`: that queue, with
    its path and budget, if it is no longer there."""

    partition: str
    queue: str
    from_ms: int
    until_ms: int
    at_ms: int
    past: tuple[Used, ...] = ()
    later_ms: int = 0
    later: tuple[Used, ...] = ()
    gone: facts.QueueAdded | None = None


class TimerRecord(Record):
    at_ms: int
    kind: str
    partition: str
    application_id: str
    key: str = ""
