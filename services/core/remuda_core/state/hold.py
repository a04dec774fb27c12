"""Holds of queues and drains of nodes by operators."""

from __future__ import annotations

import msgspec


class Hold(msgspec.Struct, frozen=True):
    """An operator holds a queue, or drains a node, since `at_ms`."""

    operator: str
    reason: str
    at_ms: int
