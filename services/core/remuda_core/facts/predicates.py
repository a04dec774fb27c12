"""Facts about questions to the RM: whether its predicates let an ask start on a node."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact, Tags


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
    # Of an RM that answers in batches: the class of the ask, and its tags.
    predicate_class: str = ""
    tags: Tags = {}


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


class PredicatesAsked(Fact):
    """The RM is asked about many nodes for all asks of a predicate class, of which the named ask is one. Until it
    answers, no ask of the class is placed. Nothing is booked."""

    partition: str
    predicate_class: str
    application_id: str
    allocation_key: str
    resource: Resource
    tags: Tags
    node_ids: tuple[str, ...]
    question: int
    answer_by_ms: int


class PredicatesAnswered(Fact):
    """The verdicts about nodes for a predicate class. For each node until when it holds (0: until the node changes),
    and why the RM refuses it ("": it does not)."""

    partition: str
    predicate_class: str
    question: int
    node_ids: tuple[str, ...]
    until_ms: tuple[int, ...]
    reasons: tuple[str, ...]


class VerdictsExpired(Fact):
    """The time of these verdicts is over: the RM may be asked again."""

    partition: str
    predicate_class: str
    node_ids: tuple[str, ...]
