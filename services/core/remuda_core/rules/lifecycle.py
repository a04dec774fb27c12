"""The states of an application (semantics section 7). TRANSITIONS alone changes them.

An entry of TRANSITIONS is event: {state: next state}. In other states the event does nothing.
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

RUN: Final = "runApplication"  # it has submitted an ask, or received an allocation
COMPLETE: Final = "completeApplication"  # it has no asks and no allocations; or the RM has removed it
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
    FAIL: {
        NEW: FAILING,
        ACCEPTED: FAILING,
        STARTING: FAILING,
        RUNNING: FAILING,
        COMPLETING: FAILING,
        RESUMING: FAILING,
        FAILING: FAILED,
    },
    RESUME: {NEW: RESUMING, ACCEPTED: RESUMING},
    EXPIRE: {COMPLETED: EXPIRED, FAILED: EXPIRED, REJECTED: EXPIRED},
}

TERMINAL: Final = frozenset({COMPLETED, REJECTED, FAILED, EXPIRED})
# An application in one of these states does not count as running.
OVER: Final = TERMINAL | {COMPLETING}

# States with a time-out: its field of settings.Timing, and the event that follows.
TIMEOUTS: Final[dict[str, tuple[str, str]]] = {
    STARTING: ("starting_ms", RUN),
    COMPLETING: ("completing_ms", COMPLETE),
    COMPLETED: ("ended_ms", EXPIRE),
    FAILED: ("ended_ms", EXPIRE),
    REJECTED: ("ended_ms", EXPIRE),
}


def lasts_ms(state: str, timing: Timing) -> int:
    """The time-out of a state in TIMEOUTS, in ms."""
    return int(getattr(timing, TIMEOUTS[state][0]))
