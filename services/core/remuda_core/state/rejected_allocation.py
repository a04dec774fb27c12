"""An allocation that the RM has reported with its node, and that could not be booked (semantics section 14)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..facts import Allocated
from ..rules.resource import Resource, add, total_of


class RejectedAllocation(msgspec.Struct, eq=False):
    """It runs on the node `fact.node_id`, so its resource counts as occupied there. `name`: as in
    ExistingAllocationRejected."""

    name: str
    fact: Allocated
    reason: str


class RejectedAllocations:
    """Those of a partition, by their name and node, and by their application."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, RejectedAllocation]] = {}
        self.by_application: dict[str, dict[RejectedAllocation, None]] = {}
        self.count = 0

    def add(self, one: RejectedAllocation) -> None:
        self.count += 1
        self.by_name.setdefault(one.name, {})[one.fact.node_id] = one
        self.by_application.setdefault(one.fact.application_id, {})[one] = None

    def remove(self, one: RejectedAllocation) -> None:
        self.count -= 1
        nodes, others = self.by_name[one.name], self.by_application[one.fact.application_id]
        del nodes[one.fact.node_id], others[one]
        if not nodes:
            del self.by_name[one.name]
        if not others:
            del self.by_application[one.fact.application_id]

    def of_application(self, application_id: str) -> list[RejectedAllocation]:
        return list(self.by_application.get(application_id, ()))

    def named(self, name: str, application_id: str) -> list[RejectedAllocation]:
        """The first of this name, as a release names it: without `application_id`, of any application."""
        found = self.by_name.get(name, {}).values()
        return [one for one in found if application_id in ("", one.fact.application_id)][:1]


def with_rejected(occupied: Resource, rejected: Iterable[RejectedAllocation], times: int = 1) -> Resource:
    """`occupied` and the resources of the rejected allocations; without them, if `times` is -1."""
    total = dict(occupied)
    add(total, total_of(one.fact.resource for one in rejected), times)
    return total
