"""Amounts that quota preemption takes back from a queue."""

from __future__ import annotations

from ..rules.resource import amounts_above
from .application import Queue


def to_give_back(queue: Queue) -> dict[str, int]:
    """The amounts above the maximum that quota preemption will take from the queue."""
    return amounts_above(queue.allocated, queue.settings.max) if queue.excess is not None else {}
