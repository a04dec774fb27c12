"""Facts about the replacement of placeholders."""

from __future__ import annotations

from ..rules.resource import Resource
from .allocations import Allocated
from .fact import Fact, Tags


class ReplacementStarted(Fact):
    """`allocation` is to replace an allocated placeholder, which the RM is asked to release. The RM learns of the
    allocation by PlaceholderReplaced. Until then resources are held if it is on another node than the placeholder."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str

    @property
    def partition(self) -> str:
        return self.allocation.partition


class PlaceholderReplaced(Fact):
    """The RM has released the placeholder, and the allocation takes its place, in one step."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str
    placeholder_node: str
    placeholder_resource: Resource

    @property
    def partition(self) -> str:
        return self.allocation.partition


class ReplacementCancelled(Fact):
    """The replacement was given up, and the ask is pending again."""

    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    placeholder: str
    reason: str


class ReplacementAsked(Fact):
    """The RM is asked whether the allocation `uuid` of the replacement may start on the node. If it agrees it is asked
    to release the placeholder; otherwise the replacement is cancelled."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuid: str
    question: int
    answer_by_ms: int
    # Of an RM that answers in batches: the class of the ask, its resources and tags.
    predicate_class: str = ""
    resource: Resource = {}
    tags: Tags = {}
