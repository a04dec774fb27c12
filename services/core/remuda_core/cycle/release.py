"""Ask the RM to release an allocation, which counts until the RM confirms (semantics section 15)."""

from __future__ import annotations

from ..facts import Fact, ReleaseRequested
from ..state import Allocation


def release_requested(allocation: Allocation, termination_type: int, message: str) -> Fact:
    fact = allocation.fact
    return ReleaseRequested(
        fact.partition, fact.application_id, fact.allocation_key, fact.uuid, termination_type, message
    )
