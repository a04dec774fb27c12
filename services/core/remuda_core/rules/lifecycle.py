"""The life of an application (semantics section 7): one table, nothing else changes a state.

Read a row as: on this occasion, in this state, become that. What is not in the table does not happen.
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

TRANSITIONS: Final[dict[str, dict[str, str]]] = {
    RUN: {NEW: ACCEPTED, ACCEPTED: STARTING, STARTING: RUNNING, COMPLETING: RUNNING, RESUMING: ACCEPTED},
    COMPLETE: {
        NEW: COMPLETING,
        ACCEPTED: COMPLETING,
        STARTING: COMPLETING,
        RUNNING: COMPLETING,
        COMPLETING: COMPLETED,
    },
    REJECT: {NEW: REJECTED},
    FAIL: {NEW: FAILING, ACCEPTED: FAILING, STARTING: FAILING, RUNNING: FAILING, FAILING: FAILED},
    RESUME: {NEW: RESUMING, ACCEPTED: RESUMING},
    EXPIRE: {COMPLETED: EXPIRED, FAILED: EXPIRED, REJECTED: EXPIRED},
}

TERMINAL: Final = frozenset({COMPLETED, REJECTED, FAILED, EXPIRED})
# Whoever comes into one of these counts as a running application no more.
OVER: Final = TERMINAL | {COMPLETING}

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
