"""Facts about asks, and the constraints that explain why asks wait."""

from __future__ import annotations

import msgspec

from ..rules.resource import Resource
from .fact import Fact, Tags


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


class AskOutstanding(Fact):
    """It may run, and there is no node for it: one more piece of what an AskWaiting told of another ask like it."""

    partition: str
    application_id: str
    allocation_key: str
    reason: str
