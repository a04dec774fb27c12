"""How long an engine has for the next attempt to place a task, and when attempts have used up a cycle."""

from __future__ import annotations

from ..settings import Settings


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
