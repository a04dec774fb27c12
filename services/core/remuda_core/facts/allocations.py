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
    # The question to the RM that this allocation answers; its booked resources become the allocation. 0: none.
    question: int = 0


class AllocationRecovered(Fact):
    """An allocation that the RM reported as running. It is booked without scheduling and uses up no ask."""

    allocation: Allocated

    @property
    def partition(self) -> str:
        return self.allocation.partition


class GuestKept(Fact):
    """An allocation of a guest that has outlived a registration of the RM, which may not have reported the node again
    yet."""

    allocation: Allocated

    @property
    def partition(self) -> str:
        return self.allocation.partition


class ExistingAllocationRejected(Fact):
    """The RM has reported that the allocation runs on the node it names, and it cannot be booked. Its resource counts
    as occupied there until RejectedAllocationForgotten, or until the node is removed. `name`: its UUID, or without one
    its application and key; unique on the node."""

    allocation: Allocated
    reason: str
    name: str

    @property
    def partition(self) -> str:
        return self.allocation.partition


class RejectedAllocationForgotten(Fact):
    """The resource of an allocation that was rejected is no longer occupied on the node. `name`: as in
    ExistingAllocationRejected."""

    partition: str
    node_id: str
    name: str
    application_id: str
    allocation_key: str
    resource: Resource
    reason: str


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
    # The RM receives an AllocationRelease.
    reported: bool
    node_removed: bool = False


class ReleaseRequested(Fact):
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    termination_type: int
    message: str


class ReleaseOverdue(Fact):
    """The RM was asked at `asked_ms` to release it, and has not confirmed in time. It no longer counts as preempted."""

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


# TerminationType of si.v1 by number, so that the rules need no protobuf.
STOPPED_BY_RM = 1

TIMEOUT = 2

PREEMPTED_BY_SCHEDULER = 3

PLACEHOLDER_REPLACED = 4


def termination_type(asked: int) -> int:
    """The termination type of a release by the RM. Unknown numbers count as STOPPED_BY_RM."""
    return asked if STOPPED_BY_RM <= asked <= PLACEHOLDER_REPLACED else STOPPED_BY_RM
