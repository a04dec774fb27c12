"""Facts about preemption."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact


class PreemptionStarted(Fact):
    """The victims `uuids` are to be released, so that the ask fits on the node and in its queues. The RM is asked to
    release them next."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    queue: str
    resource: Resource
    uuids: tuple[str, ...]


class PreemptionEnded(Fact):
    """The preemption was given up. The ask may try again."""

    partition: str
    application_id: str
    allocation_key: str
    reason: str


class PreemptionRefused(Fact):
    """No plan was found for the ask, nor for any other ask of the queue with the same resource, required node and
    priority. `set_aside`: nodes are set aside for other asks; the ask is tried again as soon as one no longer is."""

    partition: str
    application_id: str
    allocation_key: str
    queue: str
    resource: Resource
    required_node: str
    priority: int
    reason: str
    set_aside: bool = False


class QuotaExceeded(Fact):
    """The queue uses `above` more than its maximum `max`, since `since_ms`. It gives that back at `preempt_at_ms`,
    `delay_ms` after this fact, unless it does so before. Replaces what an earlier fact said of the queue."""

    partition: str
    queue: str
    max: Resource
    above: Resource
    since_ms: int
    delay_ms: int
    preempt_at_ms: int


class QuotaPreempted(Fact):
    """The allocations `uuids` are to be released, because the queue uses `above` more than its maximum. The RM is asked
    to release them next. `reason`: why they are not enough; empty if they are, together with releases that are under
    way. At `next_ms` the queue is looked at again."""

    partition: str
    queue: str
    above: Resource
    uuids: tuple[str, ...]
    reason: str
    next_ms: int


class QuotaExcessEnded(Fact):
    """The queue no longer uses more than its maximum, or no longer has to give it back."""

    partition: str
    queue: str
    reason: str


class PreemptionAsked(Fact):
    """The RM is asked whether the ask could start on the node without the allocations `uuids`. It is asked to release
    them only if it agrees."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuids: tuple[str, ...]
    victim_keys: tuple[str, ...]
    question: int
    answer_by_ms: int


class PreemptionAnswered(Fact):
    """The RM answered, or did not answer in time (then `success` is false). The ask is as it was before the question;
    after a refusal it does without this node for a while."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    question: int
    success: bool
    reason: str
