"""The allocations of a guest whose partition was dropped: its RM registers again, or has deregistered."""

from __future__ import annotations

import msgspec

from .. import facts


class LeftGuest(msgspec.Struct):
    """An application of a guest with its queue, and the queues above it, from below root downwards; its allocations by
    UUID; and the releases of them that the core has asked for. It is booked again, allocation by allocation, when its
    partition is configured again."""

    accepted: facts.ApplicationAccepted
    queues: tuple[facts.QueueAdded, ...]
    allocations: dict[str, facts.Allocated]
    releases: dict[str, facts.ReleaseRequested]
