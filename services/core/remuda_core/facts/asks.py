"""Facts about asks, and the constraints that explain why asks wait."""

from __future__ import annotations

import msgspec

from ..rules.resource import Resource
from .fact import Fact, Tags


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


class AskAccepted(Fact):
    ask: Ask

    @property
    def partition(self) -> str:
        return self.ask.partition


class AskChanged(Fact):
    """`ask.max_allocations`: the number of pending allocations from now on."""

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
        if self.constraint in ("node", "too_large", "predicate", "reserved"):
            return self.constraint, "", ""
        return self.constraint, self.where, self.resource


class AskWaiting(Fact):
    """`asks`: the number of asks of the application that wait for the same reason. `constraint` and `reason` repeat the
    first of `constraints`."""

    partition: str
    application_id: str
    allocation_key: str
    constraint: str
    reason: str
    asks: int
    resource: Resource
    constraints: tuple[Constraint, ...] = ()


class AskOutstanding(Fact):
    """The ask fits its quotas and no node. An AskWaiting has explained another ask of the same kind."""

    partition: str
    application_id: str
    allocation_key: str
    reason: str
