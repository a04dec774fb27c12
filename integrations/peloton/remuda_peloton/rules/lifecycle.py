"""The states of a task, how long it may stay in each, and the time of each attempt to place it.

TRANSITIONS alone says which state may follow which.
"""

from __future__ import annotations

from typing import Final

from ..settings import Settings

INITIALIZED: Final = "INITIALIZED"
PENDING: Final = "PENDING"
READY: Final = "READY"
PLACING: Final = "PLACING"
PLACED: Final = "PLACED"
LAUNCHING: Final = "LAUNCHING"
STARTING: Final = "STARTING"
RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
LOST: Final = "LOST"
PREEMPTING: Final = "PREEMPTING"
KILLING: Final = "KILLING"
KILLED: Final = "KILLED"
LAUNCHED: Final = "LAUNCHED"
DELETED: Final = "DELETED"
RESERVED: Final = "RESERVED"

TERMINAL: Final = frozenset({SUCCEEDED, FAILED, KILLED, LOST, DELETED})

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    INITIALIZED: frozenset({PENDING, LAUNCHING, LAUNCHED, RUNNING, KILLED}),
    PENDING: frozenset({READY, PLACED, KILLED}),
    READY: frozenset({PLACING, RESERVED, PENDING, PLACED, KILLED}),
    PLACING: frozenset({PLACED, READY, PENDING, KILLED}),
    RESERVED: frozenset({PLACED, PENDING, KILLED}),
    PLACED: frozenset({LAUNCHING, READY, PENDING, KILLED}),
    LAUNCHING: frozenset({LAUNCHED, RUNNING, READY, KILLED}),
    LAUNCHED: frozenset({RUNNING, READY, KILLED}),
    STARTING: frozenset({RUNNING, KILLED}),
    RUNNING: frozenset({PREEMPTING, KILLING, SUCCEEDED, LOST, FAILED, KILLED}),
    PREEMPTING: frozenset({RUNNING, KILLED}),
    KILLING: frozenset({KILLED}),
    FAILED: frozenset({READY}),
    KILLED: frozenset({PENDING}),
}

# Transitions that UpdateTasksState and a RUNNING event may cause: those that touch no queue. A task that is INITIALIZED
# is in none; with the transition its allocation is booked.
UPDATES: Final[dict[str, frozenset[str]]] = {
    INITIALIZED: frozenset({LAUNCHING, LAUNCHED, RUNNING}),
    LAUNCHING: frozenset({LAUNCHED, RUNNING}),
    LAUNCHED: frozenset({RUNNING}),
    STARTING: frozenset({RUNNING}),
    RUNNING: frozenset({PREEMPTING, KILLING}),
}

# States in which a task holds no allocation of its pool.
UNALLOCATED: Final = frozenset({INITIALIZED, PENDING})

# States of runs that are on no host, whatever host they name.
UNPLACED: Final = UNALLOCATED | {READY, PLACING, RESERVED}

# States in which a job manager has the task: only it can end the run.
AT_JOB_MANAGER: Final = frozenset({LAUNCHING, LAUNCHED, STARTING, RUNNING})

# States in which a host has the run. LAUNCHING is not among them: it may have it, or not yet.
ON_HOST: Final = frozenset({LAUNCHED, STARTING, RUNNING, PREEMPTING, KILLING})

# States in which a run may be replaced by a new run of the same task, and becomes an orphan.
REPLACEABLE: Final = frozenset({LAUNCHED, RUNNING})

# States with a time-out: its field of Settings. PLACING adds the backoff's time.
TIMEOUTS: Final[dict[str, str]] = {
    PLACING: "placing_timeout_s",
    PLACED: "placed_timeout_s",
    LAUNCHING: "launching_timeout_s",
    RESERVED: "reserving_timeout_s",
    PREEMPTING: "preempting_timeout_s",
}


def may_follow(before: str, after: str) -> bool:
    """Whether `after` may follow `before`. A transition to the same state is allowed, and does nothing."""
    return before == after or after in TRANSITIONS.get(before, ())


def due_ms(now_ms: int, state: str, settings: Settings, extra_s: float = 0.0) -> int:
    """The time at which a task that enters a state now times out, in ms; 0: never. The time for PLACING is whole
    seconds, with `extra_s`."""
    field = TIMEOUTS.get(state)
    seconds = 0.0 if field is None else getattr(settings, field)
    if not seconds:
        return 0
    if state == PLACING:
        seconds = int(seconds + extra_s)
    return now_ms + int(seconds * 1_000) if int(seconds * 1_000) else 0


def extra_s(attempts: float, settings: Settings) -> float:
    """The time on top of the placing time-out, in s. `attempts`: so far in this cycle."""
    if not settings.enable_placement_backoff or settings.attempts_per_cycle <= 0:
        return 0.0
    return (attempts % settings.attempts_per_cycle) * settings.retry_backoff_s


def count_attempt(attempts: float, cycles: float, settings: Settings) -> tuple[float, float]:
    """Attempts in the cycle and finished cycles, when the next attempt begins."""
    if attempts < settings.attempts_per_cycle:
        return attempts + 1, cycles
    return 1, cycles + 1


def cycle_complete(attempts: float, settings: Settings) -> bool:
    if not settings.enable_placement_backoff or settings.attempts_per_cycle <= 0:
        return False
    return attempts > 0 and attempts % settings.attempts_per_cycle == 0


def all_cycles_complete(attempts: float, cycles: float, settings: Settings) -> bool:
    per_cycle, in_all = settings.attempts_per_cycle, settings.attempts_per_cycle * settings.retry_cycles
    if not settings.enable_placement_backoff or in_all <= 0:
        return False
    done = cycles * per_cycle + attempts
    return done > 0 and done % in_all == 0
