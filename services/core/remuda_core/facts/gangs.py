"""Facts about the replacement of placeholders."""

from __future__ import annotations

from ..rules.resource import Resource
from .allocations import Allocated
from .fact import Fact


class ReplacementStarted(Fact):
    """`allocation` takes over the place of an allocated placeholder, which the RM is asked to release. It is not told
    of the allocation yet; on another node than the placeholder's its place is kept."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str

    @property
    def partition(self) -> str:
        return self.allocation.partition


class PlaceholderReplaced(Fact):
    """The placeholder is gone, the allocation is there: one step."""

    allocation: Allocated
    placeholder: str
    placeholder_key: str
    placeholder_node: str
    placeholder_resource: Resource

    @property
    def partition(self) -> str:
        return self.allocation.partition


class ReplacementCancelled(Fact):
    """The ask is pending again."""

    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    placeholder: str
    reason: str


class ReplacementAsked(Fact):
    """May the replacement just started, `uuid`, run on that node? Only then the placeholder's release is asked for; a
    no cancels it."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    uuid: str
    question: int
    answer_by_ms: int
