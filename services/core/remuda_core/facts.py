"""Facts: what has happened, as immutable values that are named in the past tense.

`decide` yields facts, `evolve` applies them to the state, and `wire` writes them into the log. A fact holds everything
that a reader of the log needs. Partition names are the scheduler's (`[rm-1]default`), queue names are full lower-case
paths, resources are in base units, times are in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .rules.resource import Resource
from .settings import PartitionSettings, QueueSettings, Timing

Tags = Mapping[str, str]


class Fact(msgspec.Struct, frozen=True, gc=False):
    pass


# Subjects of facts: their first fields


class PartitionFact(Fact):
    partition: str


class QueueFact(PartitionFact):
    queue: str


class NodeFact(PartitionFact):
    node_id: str


class ApplicationFact(PartitionFact):
    application_id: str


class AskFact(ApplicationFact):
    allocation_key: str

    @property
    def ask_name(self) -> tuple[str, str, str]:
        return self.partition, self.application_id, self.allocation_key


class AskOnNodeFact(AskFact):
    node_id: str


class AllocationFact(AskFact):
    uuid: str


def kinds() -> dict[str, type[Any]]:
    """Every kind of fact by its name."""
    return {kind.__name__: kind for kind in _leaves(Fact)}


def _leaves(kind: type[Fact]) -> Iterator[type[Fact]]:
    below = kind.__subclasses__()
    if not below:
        yield kind
    for one in below:
        yield from _leaves(one)


# Time


class TimePassed(Fact):
    """All timers due at `until_ms` have been handled. The facts that they led to come before this one."""

    until_ms: int


# The connection of a resource manager


class RmRegistered(Fact):
    rm_id: str
    version: str
    policy_group: str
    build_info: Tags
    extra_config: Tags
    registration: int
    # REPORT or REPLAY of `rules.connection`; "" in old logs means REPORT.
    resync: str = ""
    # The life of the RM: another number after each rebuild or forgetting. UUIDs of allocations derive from it.
    life: int = 0
    # Guests stay, and GuestKept follows for each of their allocations. Logs of versions that dropped them have no such
    # field.
    keeps_guests: bool = False


class RmPaused(Fact):
    """The RM has sent no heartbeat in time. Nothing is scheduled for it."""

    reason: str


class RmResumed(Fact):
    """The RM sends heartbeats again."""


class RmStopped(Fact):
    """The RM has been silent for too long, or has `deregistered`; in that case its whole state is
    dropped, but for guests."""

    reason: str
    deregistered: bool = False
    # As in RmRegistered; GuestKept follows the next registration.
    keeps_guests: bool = False


class RegistrationRefused(Fact):
    rm_id: str
    reason: str


# Configurations, partitions and queues


class ConfigurationApplied(Fact):
    checksum: str
    source: str
    compatibility: str
    timing: Timing = Timing()
    revision: int = 0


class ConfigurationRefused(Fact):
    checksum: str
    source: str
    reason: str


class PartitionAdded(PartitionFact):
    config: PartitionSettings


class PartitionChanged(PartitionFact):
    config: PartitionSettings


class PartitionDraining(PartitionFact):
    pass


class PartitionRemoved(PartitionFact):
    pass


class QueueAdded(QueueFact):
    leaf: bool
    managed: bool
    config: QueueSettings


class QueueChanged(QueueFact):
    leaf: bool
    managed: bool
    config: QueueSettings
    changed: tuple[str, ...]


class QueueDraining(QueueFact):
    pass


class QueueDrainOverdue(QueueFact):
    """The queue has been draining since `since_ms` and is not empty. `applications`: how many are in it;
    `application_ids` and `users`: of the first of them; `admin_acls`: of the queue and those above that have one, from
    the queue upwards; `next_ms`: when this is reported again."""

    since_ms: int
    applications: int
    application_ids: tuple[str, ...]
    users: tuple[str, ...]
    allocated: Resource
    admin_acls: tuple[str, ...]
    next_ms: int


class QueueRestored(QueueFact):
    pass


class QueueRemoved(QueueFact):
    managed: bool


# Nodes and their reservations


class NodeAdded(NodeFact):
    attributes: Tags
    capacity: Resource
    occupied: Resource
    draining: bool


class NodeRejected(NodeFact):
    reason: str


class NodeChanged(NodeFact):
    attributes: Tags
    capacity: Resource
    occupied: Resource
    changed: tuple[str, ...]


class NodeDraining(NodeFact):
    """The RM drains the node, or the operator does, or it has `left`: the time of its attribute has come; or this
    `window` of maintenance has opened. The node is draining while one of them holds. `running`: how many allocations
    still run there when a known time has come."""

    operator: str = ""
    reason: str = ""
    left: bool = False
    running: int = 0
    window: str = ""


class NodeLeaving(NodeFact):
    """The operator drains the node from `from_ms` on. Until then only asks whose bound ends before start there."""

    from_ms: int
    operator: str
    reason: str = ""


class NodeSchedulable(NodeFact):
    """The RM, or the operator, no longer drains the node, or no longer from a time on; or it has not `left` any more:
    its attribute names a later time, or none; or this `window` has closed. `draining`: it is drained all the same."""

    operator: str = ""
    draining: bool = False
    left: bool = False
    window: str = ""


class WindowPlanned(PartitionFact):
    """The window of the calendar comes next from `from_ms` until `until_ms`; 0: it does not come again."""

    window: str
    from_ms: int = 0
    until_ms: int = 0


class WindowOpened(PartitionFact):
    """The window is in force; one that keeps nodes is so from its lead on. Facts about its nodes and queues follow."""

    window: str
    from_ms: int
    until_ms: int


class WindowClosed(PartitionFact):
    """The window is no longer in force. Facts about its nodes and queues follow."""

    window: str


class NodeRemoved(NodeFact):
    pass


class NodeReserved(AskOnNodeFact):
    """The node is reserved for one allocation of the ask, which needs `resource`. `by_preemption`: a preemption under
    way makes room for it, also under its quotas."""

    resource: Resource
    by_preemption: bool = False
    # When the node has room for the ask at the latest, by the bounds of what runs there; 0: not known.
    promised_ms: int = 0


class PromiseChanged(AskOnNodeFact):
    """The reserved ask starts later than it was promised, because of `cause`; or it is promised a time at last, and
    `before_ms` is 0."""

    promised_ms: int
    before_ms: int
    cause: str


class NodeUnreserved(AskOnNodeFact):
    """`timed_out`: it was reserved for as long as it may be. The ask waits anew before it reserves a node again."""

    resource: Resource
    reason: str
    by_preemption: bool = False
    timed_out: bool = False


# Applications


class ApplicationAccepted(ApplicationFact):
    """`ignored`: what was ignored of the request, because the work of the application runs already; it would have been
    a reason to reject it otherwise."""

    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Tags
    execution_timeout_ms: int
    placeholder_ask: Resource
    gang_scheduling_style: str
    ignored: str = ""


class ApplicationRejected(ApplicationFact):
    """`recorded`: the state keeps a record of the rejection, which queries show."""

    reason: str
    recorded: bool = False
    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


class RejectionForgotten(ApplicationFact):
    """The record of the rejected application is removed."""


class ApplicationStateChanged(ApplicationFact):
    state: str
    reason: str
    at_ms: int
    queue: str
    allocated: Resource


class ApplicationRemoved(ApplicationFact):
    queue: str


# Asks, and the constraints that explain why asks wait


class Ask(msgspec.Struct, frozen=True, gc=False):
    """An AllocationAsk (000), with the scheduler's name of the partition."""

    partition: str
    application_id: str
    allocation_key: str
    resource: Resource
    max_allocations: int = 1
    priority: int = 0
    execution_timeout_ms: int = 0
    tags: Tags = {}
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    # None: the RM sent no preemption policy.
    allow_preempt_self: bool | None = None
    allow_preempt_other: bool | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        return self.partition, self.application_id, self.allocation_key


class FactWithAsk(Fact):
    """`ignored`: which tags about run times could not be read, and why; they count as absent."""

    ask: Ask
    ignored: str = ""

    @property
    def partition(self) -> str:
        return self.ask.partition


class AskAccepted(FactWithAsk):
    pass


class AskChanged(FactWithAsk):
    """`ask.max_allocations`: the number of pending allocations from now on."""


class AskRejected(AskFact):
    reason: str


class AskReleased(AskFact):
    termination_type: int
    message: str
    resource: Resource
    pending: int


# `Constraint.key` of all constraints of kind "node".
NO_NODE = ("node", "", "")


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """One reason why an ask waits (semantics section 17). `constraint`: its kind. `where`: the queue, user, group or
    node. `resource`: the resource that is short ("": none), of which the ask needs `need` and `have` is available."""

    constraint: str
    where: str
    reason: str
    resource: str = ""
    need: int = 0
    have: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the constraint over time. Node constraints are equal whichever node they name."""
        if self.constraint in ("node", "device", "too_large", "predicate", "reserved", "domain", "slice"):
            return self.constraint, "", ""
        return self.constraint, self.where, self.resource


class AskWaiting(AskFact):
    """`asks`: the number of asks of the application that wait for the same reason. `constraint` and `reason` repeat the
    first of `constraints`."""

    constraint: str
    reason: str
    asks: int
    resource: Resource
    constraints: tuple[Constraint, ...] = ()


class AskOutstanding(AskFact):
    """The ask fits its quotas and no node. An AskWaiting has explained another ask of the same kind."""

    reason: str


# Allocations and their release


class Allocated(AllocationFact):
    node_id: str
    resource: Resource
    priority: int = 0
    tags: Tags = {}
    task_group: str = ""
    placeholder: bool = False
    execution_timeout_ms: int = 0
    originator: bool = False
    allow_preempt_self: bool | None = None
    # The question to the RM that this allocation answers; its booked resources become the allocation. 0: none.
    question: int = 0
    # The names of its devices by resource, with commas between them (semantics section 20).
    devices: Tags = {}


class FactWithAllocation(Fact):
    allocation: Allocated

    @property
    def partition(self) -> str:
        return self.allocation.partition


class AllocationRecovered(FactWithAllocation):
    """An allocation that the RM reported as running. It is booked without scheduling and uses up no ask."""


class DevicesAssigned(PartitionFact):
    """An allocation that was booked without devices has these from now on: its resource stands on devices since the
    configuration has changed, or its node has devices since an update. `devices`: as in Allocated, of all resources."""

    uuid: str
    devices: Tags


class WorkMeasured(PartitionFact):
    """The node sort policy `fragmentation` sets prices by this measure of the work on devices from now on. `shares`:
    the common shares of one device. `cpu_of_device`: the CPU that common work uses for one device. `allocations`: the
    number that the RM has had."""

    resource: str
    shares: tuple[int, ...]
    cpu_of_device: int
    allocations: int


class DomainAvoided(AskFact):
    """Asks of others are placed in the domain only where no other node has room, until it is avoided no more: the group
    `group` of the application has waited for a domain, and this one is nearest to having room for it. `domain`: the
    values of the attributes from the coarsest level to `level`; of the level `host` the ID of the node.
    `allocation_key`: of an ask of the group. `missing`: how many members have no room there yet."""

    group: str
    level: str
    domain: tuple[str, ...]
    missing: int


class DomainAvoidanceEnded(AskFact):
    """The domain is avoided for the group no more."""

    group: str
    level: str
    domain: tuple[str, ...]
    reason: str


class GuestKept(FactWithAllocation):
    """An allocation of a guest that has outlived a registration of the RM, which may not have reported the node again
    yet."""


class ExistingAllocationRejected(FactWithAllocation):
    """The RM has reported that the allocation runs on the node it names, and it cannot be booked. Its resource counts
    as occupied there until RejectedAllocationForgotten, or until the node is removed. `name`: its UUID, or without one
    its application and key; unique on the node."""

    reason: str
    name: str


class RejectedAllocationForgotten(NodeFact):
    """The resource of an allocation that was rejected is no longer occupied on the node. `name`: as in
    ExistingAllocationRejected."""

    name: str
    application_id: str
    allocation_key: str
    resource: Resource
    reason: str


class AllocationRejected(AskFact):
    reason: str


class AllocationReleased(AllocationFact):
    node_id: str
    resource: Resource
    termination_type: int
    message: str
    # The RM receives an AllocationRelease.
    reported: bool
    node_removed: bool = False


class ReleaseRequested(AllocationFact):
    termination_type: int
    message: str


class ReleaseOverdue(AllocationFact):
    """The RM was asked at `asked_ms` to release it, and has not confirmed in time. It no longer counts as preempted."""

    node_id: str
    termination_type: int
    asked_ms: int


class ReleaseIgnored(AllocationFact):
    termination_type: int
    message: str


# TerminationType of si.v1 by number, so that the rules need no protobuf.
STOPPED_BY_RM = 1

TIMEOUT = 2

PREEMPTED_BY_SCHEDULER = 3

PLACEHOLDER_REPLACED = 4


def termination_type(asked: int) -> int:
    """The termination type of a release by the RM. Unknown numbers count as STOPPED_BY_RM."""
    return asked if STOPPED_BY_RM <= asked <= PLACEHOLDER_REPLACED else STOPPED_BY_RM


# The replacement of placeholders


class ReplacementStarted(FactWithAllocation):
    """`allocation` is to replace an allocated placeholder, which the RM is asked to release. The RM learns of the
    allocation by PlaceholderReplaced. Until then resources are held if it is on another node than the placeholder."""

    placeholder: str
    placeholder_key: str


class PlaceholderReplaced(FactWithAllocation):
    """The RM has released the placeholder, and the allocation takes its place, in one step."""

    placeholder: str
    placeholder_key: str
    placeholder_node: str
    placeholder_resource: Resource


class ReplacementCancelled(AllocationFact):
    """The replacement was given up, and the ask is pending again."""

    placeholder: str
    reason: str


class ReplacementAsked(AskOnNodeFact):
    """The RM is asked whether the allocation `uuid` of the replacement may start on the node. If it agrees it is asked
    to release the placeholder; otherwise the replacement is cancelled."""

    uuid: str
    question: int
    answer_by_ms: int
    # Of an RM that answers in batches: the class of the ask, its resources and tags.
    predicate_class: str = ""
    resource: Resource = {}
    tags: Tags = {}


# Questions to the RM: whether its predicates let an ask start on a node


class PredicateAsked(AskOnNodeFact):
    """The RM is asked whether its predicates let the ask start on the node. Until it answers, one allocation of the ask
    is booked on the node, in the queues and in the application."""

    resource: Resource
    kind: str
    question: int
    answer_by_ms: int
    # Of an RM that answers in batches: the class of the ask, and its tags.
    predicate_class: str = ""
    tags: Tags = {}
    # The devices on which room is held, as in Allocated.
    devices: Tags = {}


class PredicateRefused(AskOnNodeFact):
    """The RM refused, or did not answer in time. The booked resources are freed, and the allocation is pending again,
    but not on this node."""

    question: int
    reason: str


class PredicateWithdrawn(AskOnNodeFact):
    """The question is obsolete. The booked resources are freed, and the allocation is pending again."""

    question: int
    reason: str


class RefusalsForgotten(AskFact):
    """The nodes that the RM refused for this ask may be tried again."""


class PredicatesAsked(PartitionFact):
    """The RM is asked about many nodes for all asks of a predicate class, of which the named ask is one. Until it
    answers, no ask of the class is placed. Nothing is booked."""

    predicate_class: str
    application_id: str
    allocation_key: str
    resource: Resource
    tags: Tags
    node_ids: tuple[str, ...]
    question: int
    answer_by_ms: int


class PredicatesAnswered(PartitionFact):
    """The verdicts about nodes for a predicate class. For each node until when it holds (0: until the node changes),
    and why the RM refuses it ("": it does not)."""

    predicate_class: str
    question: int
    node_ids: tuple[str, ...]
    until_ms: tuple[int, ...]
    reasons: tuple[str, ...]


class VerdictsExpired(PartitionFact):
    """The time of these verdicts is over: the RM may be asked again."""

    predicate_class: str
    node_ids: tuple[str, ...]


# Preemption


class PreemptionStarted(AskOnNodeFact):
    """The victims `uuids` are to be released, so that the ask fits on the node and in its queues. The RM is asked to
    release them next. For a group: so that so many (`counts`) allocations of each of the asks `members` fit on `nodes`,
    which are kept for them, in `domain`, for people; `resource` is what they ask for together."""

    queue: str
    resource: Resource
    uuids: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    domain: str = ""
    members: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


class PreemptionEnded(AskFact):
    """The preemption was given up. The ask may try again."""

    reason: str


class PreemptionRefused(AskFact):
    """No plan was found for the ask, nor for any other ask of the queue with the same resource, required node and
    priority. `set_aside`: nodes are set aside for other asks; the ask is tried again as soon as one no longer is.
    `group`: of a member of a group, application and name of the group; then only for asks of this group."""

    queue: str
    resource: Resource
    required_node: str
    priority: int
    reason: str
    set_aside: bool = False
    group: str = ""


class QuotaExceeded(QueueFact):
    """The queue uses `above` more than its maximum `max`, since `since_ms`. It gives that back at `preempt_at_ms`,
    `delay_ms` after this fact, unless it does so before. Replaces what an earlier fact said of the queue."""

    max: Resource
    above: Resource
    since_ms: int
    delay_ms: int
    preempt_at_ms: int


class QuotaPreempted(QueueFact):
    """The allocations `uuids` are to be released, because the queue uses `above` more than its maximum. The RM is asked
    to release them next. `reason`: why they are not enough; empty if they are, together with releases that are under
    way. At `next_ms` the queue is looked at again."""

    above: Resource
    uuids: tuple[str, ...]
    reason: str
    next_ms: int


class QuotaExcessEnded(QueueFact):
    """The queue no longer uses more than its maximum, or no longer has to give it back."""

    reason: str


class QuotaLent(PartitionFact):
    """The lender has so much less of its maximum, or of its guarantee, until a time, and the borrower so much more.
    Facts with the changed settings of both queues follow."""

    lender: str
    borrower: str
    amounts: Resource
    guaranteed: bool
    until_ms: int
    operator: str
    reason: str


class QuotaLoanEnded(PartitionFact):
    """Facts with the changed settings of both queues follow, if they are there."""

    lender: str
    borrower: str
    reason: str


class BudgetPeriodBegan(QueueFact):
    """The period of the budget of the queue is over, and the next one counts, `from_ms` to `until_ms`. `used`: what was
    used in the period that is over, in base units * hours, rounded down."""

    from_ms: int
    until_ms: int
    used: Resource


class PreemptionAsked(AskOnNodeFact):
    """The RM is asked whether the ask could start on the node without the allocations `uuids`. It is asked to release
    them only if it agrees. For a group: the ask is one of its `members`, of each of which so many (`counts`) are to
    start, some on other nodes."""

    uuids: tuple[str, ...]
    victim_keys: tuple[str, ...]
    question: int
    answer_by_ms: int
    members: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


class PreemptionAnswered(AskOnNodeFact):
    """The RM answered, or did not answer in time (then `success` is false). The ask is as it was before the question;
    after a refusal it does without this node for a while, or, if the RM spares some of the victims (`spared`: UUIDs),
    without these victims."""

    question: int
    success: bool
    reason: str
    spared: tuple[str, ...] = ()


# Actions of operators


class Action(msgspec.Struct, frozen=True, gc=False):
    """An action of an operator, with its target and the reason. `kind`: the name of its class in `actions`. Fields that
    the kind does not have are empty. `queue`: the one that is held or resumed, that lends, or to which the application
    moves."""

    kind: str
    operator: str
    reason: str
    action_id: str
    partition: str
    application_id: str = ""
    queue: str = ""
    node_id: str = ""
    allocation_key: str = ""
    uuid: str = ""
    priority: int = 0
    force: bool = False
    from_ms: int = 0
    borrower: str = ""
    amounts: Resource = {}
    guaranteed: bool = False
    until_ms: int = 0


class ActionTaken(Fact):
    """The first fact of the decision, before the effects. `overridden`: the soft rules that it breaks by force.
    `repeated`: the action_id was used before, so there are no effects."""

    action: Action
    overridden: tuple[str, ...] = ()
    repeated: bool = False


class ActionRefused(Fact):
    """`soft`: `force` would have allowed it."""

    action: Action
    refusal: str
    repeated: bool = False
    soft: bool = False


class ApplicationMoved(ApplicationFact):
    """The application is in `queue` now, with all it has."""

    queue: str
    from_queue: str


class QueueHeld(QueueFact):
    """Nothing is allocated or started in the queue and below it. A hold belongs to the path: it outlives the queue."""

    operator: str
    reason: str


class QueueResumed(QueueFact):
    operator: str
