"""The life of an application (semantics section 7): one table, nothing else changes a state.

Read a row as: in this state, on this occasion, become that. What is not in the table does not happen.
"""

from __future__ import annotations

from typing import Final

from ..settings import Timing

NEW: Final = "New"
ACCEPTED: Final = "Accepted"
STARTING: Final = "Starting"
RUNNING: Final = "Running"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
REJECTED: Final = "Rejected"
FAILING: Final = "Failing"
FAILED: Final = "Failed"
RESUMING: Final = "Resuming"
EXPIRED: Final = "Expired"

RUN: Final = "runApplication"  # it asks, or is given, something
COMPLETE: Final = "completeApplication"  # nothing asked and nothing held; or the RM removed it
FAIL: Final = "failApplication"
REJECT: Final = "rejectApplication"
RESUME: Final = "resumeApplication"
EXPIRE: Final = "expireApplication"

TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    (NEW, RUN): ACCEPTED,
    (ACCEPTED, RUN): STARTING,
    (STARTING, RUN): RUNNING,
    (COMPLETING, RUN): RUNNING,
    (RESUMING, RUN): ACCEPTED,
    (NEW, COMPLETE): COMPLETING,
    (ACCEPTED, COMPLETE): COMPLETING,
    (STARTING, COMPLETE): COMPLETING,
    (RUNNING, COMPLETE): COMPLETING,
    (COMPLETING, COMPLETE): COMPLETED,
    (NEW, REJECT): REJECTED,
    (NEW, FAIL): FAILING,
    (ACCEPTED, FAIL): FAILING,
    (STARTING, FAIL): FAILING,
    (RUNNING, FAIL): FAILING,
    (FAILING, FAIL): FAILED,
    (NEW, RESUME): RESUMING,
    (ACCEPTED, RESUME): RESUMING,
    (COMPLETED, EXPIRE): EXPIRED,
    (FAILED, EXPIRE): EXPIRED,
    (REJECTED, EXPIRE): EXPIRED,
}

TERMINAL: Final = frozenset({COMPLETED, REJECTED, FAILED, EXPIRED})

# Which states end by themselves: the time they last (a field of settings.Timing), and what happens then.
TIMEOUTS: Final[dict[str, tuple[str, str]]] = {
    STARTING: ("starting_ms", RUN),
    COMPLETING: ("completing_ms", COMPLETE),
    COMPLETED: ("ended_ms", EXPIRE),
    FAILED: ("ended_ms", EXPIRE),
    REJECTED: ("ended_ms", EXPIRE),
}


def lasts_ms(state: str, timing: Timing) -> int:
    """Of a state that is in TIMEOUTS."""
    return int(getattr(timing, TIMEOUTS[state][0]))
