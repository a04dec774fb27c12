"""Facts about allocations and their release."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact, Tags


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


# si.TerminationType, by number: facts carry the number so that the rules need no protobuf.
STOPPED_BY_RM = 1

TIMEOUT = 2

PREEMPTED_BY_SCHEDULER = 3

PLACEHOLDER_REPLACED = 4


def termination_type(asked: int) -> int:
    """The one a release by the RM has: any number that is none counts as STOPPED_BY_RM."""
    return asked if STOPPED_BY_RM <= asked <= PLACEHOLDER_REPLACED else STOPPED_BY_RM
