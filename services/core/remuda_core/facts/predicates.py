"""Facts about questions to the RM: whether its predicates let an ask start on a node."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact


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
