"""Facts about questions to the RM: whether its predicates let an ask start on a node."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact


class PredicateAsked(Fact):
    """The RM is asked whether its predicates let the ask start on the node. Until it answers, one allocation of the ask
    is booked on the node, in the queues and in the application."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    kind: str
    question: int
    answer_by_ms: int


class PredicateRefused(Fact):
    """The RM refused, or did not answer in time. The booked resources are freed, and the allocation is pending again,
    but not on this node."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    reason: str


class PredicateWithdrawn(Fact):
    """The question is obsolete. The booked resources are freed, and the allocation is pending again."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    reason: str


class RefusalsForgotten(Fact):
    """The nodes that the RM refused for this ask may be tried again."""

    partition: str
    application_id: str
    allocation_key: str
