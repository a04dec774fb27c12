"""A queue that uses more than its maximum, and gives back what is above it after a delay."""

from __future__ import annotations

import msgspec

from ..rules.resource import Resource


class QuotaExcess(msgspec.Struct, frozen=True):
    """`since_ms`: when the queue exceeded its maximum. `max` and `delay_ms`: those that set the clock; with others it
    starts again. `preempt_at_ms`: when allocations are preempted, or are preempted next."""

    since_ms: int
    max: Resource
    delay_ms: int
    preempt_at_ms: int
