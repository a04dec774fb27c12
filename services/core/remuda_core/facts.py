"""What has happened: immutable values, in the past tense, complete in themselves.

`decide` yields them, `evolve` writes them into the state, `wire` writes them into the log. Partition names are the
scheduler's (`[rm-1]default`), queue names are full lower-case paths, resources are in base units, times are
milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .rules.resource import Resource
from .settings import PartitionSettings, QueueSettings, Timing

Tags = Mapping[str, str]


class Fact(msgspec.Struct, frozen=True, gc=False):
    pass


class TimePassed(Fact):
    """All alarms until then have been looked at: what they led to is in the facts before."""

    until_ms: int


# Resource managers and their configuration


class RmRegistered(Fact):
    rm_id: str
    version: str
    policy_group: str
    build_info: Tags
    extra_config: Tags
    registration: int
    # REPORT or REPLAY; empty in logs from before there was a choice: REPORT.
    resync: str = ""
    # Which log of this RM it is: 0, or when the one before was given up.
    life: int = 0


class RmPaused(Fact):
    """The RM is silent."""

    reason: str


class RmResumed(Fact):
    """The RM is heard again."""


class RmStopped(Fact):
    """The RM is gone: silent for too long, or `deregistered`; then all that was known of it is dropped."""

    reason: str
    deregistered: bool = False


class RegistrationRefused(Fact):
    rm_id: str
    reason: str


class ConfigurationApplied(Fact):
    checksum: str
    source: str
    compatibility: str
    timing: Timing = Timing()


class ConfigurationRefused(Fact):
    checksum: str
    source: str
    reason: str


class PartitionAdded(Fact):
    partition: str
    config: PartitionSettings


class PartitionChanged(Fact):
    partition: str
    config: PartitionSettings


class PartitionDraining(Fact):
    partition: str


class PartitionRemoved(Fact):
    partition: str


class QueueAdded(Fact):
    partition: str
    queue: str
    leaf: bool
    managed: bool
    config: QueueSettings


class QueueChanged(Fact):
    partition: str
    queue: str
    leaf: bool
    managed: bool
    config: QueueSettings
    changed: tuple[str, ...]


class QueueDraining(Fact):
    partition: str
    queue: str


class QueueRestored(Fact):
    partition: str
    queue: str


class QueueRemoved(Fact):
    partition: str
    queue: str
    managed: bool


# Nodes


class NodeAdded(Fact):
    partition: str
    node_id: str
    attributes: Tags
    capacity: Resource
    occupied: Resource
    draining: bool


class NodeRejected(Fact):
    partition: str
    node_id: str
    reason: str


class NodeChanged(Fact):
    partition: str
    node_id: str
    attributes: Tags
    capacity: Resource
    occupied: Resource
    changed: tuple[str, ...]


class NodeDraining(Fact):
    partition: str
    node_id: str


class NodeSchedulable(Fact):
    partition: str
    node_id: str


class NodeRemoved(Fact):
    partition: str
    node_id: str


class NodeReserved(Fact):
    """The node is kept for one repeat of the ask; `resource` is what it wants. `by_preemption`: for what a preemption
    is to make room for, though its quota has none yet."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    by_preemption: bool = False


class NodeUnreserved(Fact):
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    reason: str
    by_preemption: bool = False


# Applications


class ApplicationAccepted(Fact):
    partition: str
    application_id: str
    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Tags
    execution_timeout_ms: int
    placeholder_ask: Resource
    gang_scheduling_style: str


class ApplicationRejected(Fact):
    """`recorded`: a record of it is kept."""

    partition: str
    application_id: str
    reason: str
    recorded: bool = False
    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


class RejectionForgotten(Fact):
    """The record of a rejected application is no longer kept."""

    partition: str
    application_id: str


class ApplicationStateChanged(Fact):
    partition: str
    application_id: str
    state: str
    reason: str
    at_ms: int
    queue: str
    allocated: Resource


class ApplicationRemoved(Fact):
    partition: str
    application_id: str
    queue: str


# Asks


class Ask(msgspec.Struct, frozen=True, gc=False):
    """An AllocationAsk of the specification (000), partition name normalised."""

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


class AskAccepted(Fact):
    ask: Ask

    @property
    def partition(self) -> str:
        return self.ask.partition


class AskChanged(Fact):
    """`ask.max_allocations` is how many are pending now."""

    ask: Ask

    @property
    def partition(self) -> str:
        return self.ask.partition


class AskRejected(Fact):
    partition: str
    application_id: str
    allocation_key: str
    reason: str


class AskReleased(Fact):
    partition: str
    application_id: str
    allocation_key: str
    termination_type: int
    message: str
    resource: Resource
    pending: int


# Constraint.key of those of kind "node".
NO_NODE = ("node", "", "")


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """What is in an ask's way: `constraint` says of which kind it is, `where` at which queue, user, group or node. Of
    `resource`, if it is one, the ask needs `need` and there is `have`."""

    constraint: str
    where: str
    reason: str
    resource: str = ""
    need: int = 0
    have: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same constraint a minute later. Which node it is out of many does not."""
        if self.constraint in ("node", "predicate", "reserved"):
            return self.constraint, "", ""
        return self.constraint, self.where, self.resource


class AskWaiting(Fact):
    """`asks`: how many of the application wait like this one. `constraint` and `reason` are those of the first of
    `constraints`."""

    partition: str
    application_id: str
    allocation_key: str
    constraint: str
    reason: str
    asks: int
    resource: Resource
    constraints: tuple[Constraint, ...] = ()


# Allocations


class AskOutstanding(Fact):
    """It may run, and there is no node for it: one more piece of what an AskWaiting told of another ask like it."""

    partition: str
    application_id: str
    allocation_key: str
    reason: str


class Allocated(Fact):
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resource: Resource
    priority: int = 0
    tags: Tags = {}
    task_group: str = ""
    placeholder: bool = False
    execution_timeout_ms: int = 0
    originator: bool = False
    allow_preempt_self: bool | None = None
    # The question whose answer it is: what that held is allocated now. 0: nobody was asked.
    question: int = 0


class AllocationRecovered(Fact):
    """As the RM reported it: booked without scheduling, no ask pays for it."""

    allocation: Allocated

    @property
    def partition(self) -> str:
        return self.allocation.partition


class AllocationRejected(Fact):
    partition: str
    application_id: str
    allocation_key: str
    reason: str


class AllocationReleased(Fact):
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resource: Resource
    termination_type: int
    message: str
    # The RM hears of it as an AllocationRelease.
    told: bool
    node_removed: bool = False


class ReleaseRequested(Fact):
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    termination_type: int
    message: str


class ReleaseOverdue(Fact):
    """The RM was asked to release it at `asked_ms` and has not. It does not count as going any more."""

    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    termination_type: int
    asked_ms: int


class ReleaseIgnored(Fact):
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    termination_type: int
    message: str


# Gangs


class ReplacementStarted(Fact):
    """`allocation` takes over the place of an allocated placeholder, which the RM is asked to release. It is not told
    of the allocation yet; on another node than the placeholder's its place is kept."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str

    @property
    def partition(self) -> str:
        return self.allocation.partition


class PlaceholderReplaced(Fact):
    """The placeholder is gone, the allocation is there: one step."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str
    placeholder_node: str
    placeholder_resource: Resource

    @property
    def partition(self) -> str:
        return self.allocation.partition


class ReplacementCancelled(Fact):
    """The ask is pending again."""

    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    placeholder: str
    reason: str


# Questions to the RM


class PredicateAsked(Fact):
    """May the RM's predicates let it start there? Until it answers, one repeat of the ask and its room on the node, in
    the queues and in the application are held as if it were allocated."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    kind: str
    question: int
    answer_by_ms: int


class PredicateRefused(Fact):
    """By the RM, or because no answer came: what was held is free, the repeat is pending again, and not on this
    node."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    reason: str


class PredicateWithdrawn(Fact):
    """The question means nothing any more: what was held is free, and the repeat is pending again."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    reason: str


class RefusalsForgotten(Fact):
    """Every node may be asked about again for this ask."""

    partition: str
    application_id: str
    allocation_key: str


# Preemption


class PreemptionStarted(Fact):
    """So that the ask fits on the node and in its queues, the release of the victims, `uuids`, is asked of the RM
    next."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    queue: str
    resource: Resource
    uuids: tuple[str, ...]


class PreemptionEnded(Fact):
    """It has not helped the ask, which may try again."""

    partition: str
    application_id: str
    allocation_key: str
    reason: str


class PreemptionRefused(Fact):
    """Nothing could be preempted for the ask, nor for any like it: of this priority, with this demand, in this
    queue."""

    partition: str
    application_id: str
    allocation_key: str
    queue: str
    resource: Resource
    required_node: str
    priority: int
    reason: str


class ReplacementAsked(Fact):
    """May the replacement just started, `uuid`, run on that node? Only then the placeholder's release is asked for; a
    no cancels it."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuid: str
    question: int
    answer_by_ms: int


class PreemptionAsked(Fact):
    """Would the ask start on the node if these went away? Nothing is asked of anybody else before the RM answers."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuids: tuple[str, ...]
    victim_keys: tuple[str, ...]
    question: int
    answer_by_ms: int


class PreemptionAnswered(Fact):
    """By the RM, or by its silence. The ask stands where it stood before the question; after a no, without this
    node."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    success: bool
    reason: str


# si.TerminationType, by number: facts carry the number so that the rules need no protobuf.
STOPPED_BY_RM = 1
TIMEOUT = 2
PREEMPTED_BY_SCHEDULER = 3
PLACEHOLDER_REPLACED = 4


def termination_type(asked: int) -> int:
    """The one a release by the RM has: any number that is none counts as STOPPED_BY_RM."""
    return asked if STOPPED_BY_RM <= asked <= PLACEHOLDER_REPLACED else STOPPED_BY_RM


def kinds() -> dict[str, type[Any]]:
    """Every kind of fact by its name."""
    return {kind.__name__: kind for kind in Fact.__subclasses__()}
