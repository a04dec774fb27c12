"""What the core knows of one resource manager. Only `evolve` writes here; everything can be rebuilt from the log.

It holds what the facts say, and sums over that (`allocated`, `pending`, counts of priorities), which `evolve` keeps and
`check` counts anew. It knows nothing of the scheduling index, which stands beside it. `by_key` and
`pending_sum` of an application are built at their first use.
"""

from __future__ import annotations

from .application import (
    NO_NODES,
    NO_RESERVATIONS,
    Allocation,
    Application,
    Like,
    Node,
    PendingAsk,
    PendingSum,
    Preemption,
    Question,
    Queue,
    Replacement,
    TaskGroup,
    Tracker,
)
from .partition import KeyHolders, Partition, RejectedApplication, ResourceNames
from .state import FIRST_UUID, State
from .timers import NEVER_MS, Timer, Timers, after

__all__ = [
    "FIRST_UUID",
    "NEVER_MS",
    "NO_NODES",
    "NO_RESERVATIONS",
    "Allocation",
    "Application",
    "KeyHolders",
    "Like",
    "Node",
    "Partition",
    "PendingAsk",
    "PendingSum",
    "Preemption",
    "Question",
    "Queue",
    "RejectedApplication",
    "Replacement",
    "ResourceNames",
    "State",
    "TaskGroup",
    "Timer",
    "Timers",
    "Tracker",
    "after",
]
