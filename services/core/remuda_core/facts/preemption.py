"""Facts about preemption."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact


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
