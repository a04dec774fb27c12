"""The data of one resource manager in the core. Only `evolve` writes here; everything can be rebuilt from the log.

The state holds the content of the facts, and sums over it (`allocated`, `pending`, counts of priorities). `evolve`
maintains the sums; `check` computes them again. The state does not refer to the scheduling index.

Three lookups are built by `evolve.booking` before their first use and maintained by `evolve` from then on, because few
states need them: `Application.by_key` and `pending_sum`, `Partition.holders`. They change no decision and no digest.
"""

from __future__ import annotations

from .accounts import Account, AccountKey, Accounts
from .application import (
    NO_NODES,
    NO_RESERVATIONS,
    NO_SPARED,
    Allocation,
    Application,
    Devices,
    Hold,
    Like,
    Loan,
    LoanKey,
    Node,
    PastConstraint,
    PendingAsk,
    PendingSum,
    PredicateClass,
    Preemption,
    Promise,
    Queue,
    QuotaExcess,
    Refusals,
    RejectedAllocation,
    Replacement,
    TaskGroup,
    Tracker,
    asked_together,
    to_give_back,
    with_rejected,
)
from .budgets import Budget, BudgetKey, Budgets
from .left_guest import LeftGuest
from .partition import KeyHolders, Occurrence, Partition, Question, RejectedApplication, ResourceNames
from .runtimes import Run, Runtimes
from .state import FIRST_UUID, State
from .timers import NEVER_MS, UNBOUNDED, Timer, Timers, after

__all__ = [
    "FIRST_UUID",
    "NEVER_MS",
    "NO_NODES",
    "NO_RESERVATIONS",
    "NO_SPARED",
    "UNBOUNDED",
    "Account",
    "AccountKey",
    "Accounts",
    "Allocation",
    "Application",
    "Budget",
    "BudgetKey",
    "Budgets",
    "Devices",
    "Hold",
    "KeyHolders",
    "LeftGuest",
    "Like",
    "Loan",
    "LoanKey",
    "Node",
    "Occurrence",
    "Partition",
    "PastConstraint",
    "PendingAsk",
    "PendingSum",
    "PredicateClass",
    "Preemption",
    "Promise",
    "Question",
    "Queue",
    "QuotaExcess",
    "Refusals",
    "RejectedAllocation",
    "RejectedApplication",
    "Replacement",
    "ResourceNames",
    "Run",
    "Runtimes",
    "State",
    "TaskGroup",
    "Timer",
    "Timers",
    "Tracker",
    "after",
    "asked_together",
    "to_give_back",
    "with_rejected",
]
