"""Retry policy: how long a loop pauses after a failed attempt, and when it gives up.

Every policy stands beside its use, or in the `limits.py` of its room. Time is the event loop's, so a simulation with
virtual time needs no special case. Pauses have no jitter: a stream has few writers, and a simulation must repeat
exactly (docs/adr/settings-and-retries.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
ErrorTypes = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The pauses between attempts, in seconds.

    `first_pause_s`: the pause after the first failure. `longest_pause_s`: pauses double up to this one; None: all
    pauses equal the first. `give_up_after_s`: no attempt starts later than this after the first one; None: retry
    without end."""

    first_pause_s: float
    longest_pause_s: float | None = None
    give_up_after_s: float | None = None

    def pause_after(self, pause_s: float) -> float:
        """The pause that follows a pause of `pause_s`."""
        return pause_s if self.longest_pause_s is None else min(2 * pause_s, self.longest_pause_s)


class Backoff:
    """One run of a retry policy: it starts with the first attempt. For loops that need more than `retry`."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._started = _now()
        self._pause_s = policy.first_pause_s

    @property
    def is_exhausted(self) -> bool:
        """Whether the policy allows no further attempt."""
        give_up_after_s = self._policy.give_up_after_s
        return give_up_after_s is not None and _now() - self._started >= give_up_after_s

    async def pause(self) -> None:
        pause_s, self._pause_s = self._pause_s, self._policy.pause_after(self._pause_s)
        await asyncio.sleep(pause_s)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on: ErrorTypes,
    report: Callable[[Exception], object] | None = None,
) -> T:
    """Call `attempt` until it returns, and return its result.

    `on`: the errors that are retried; any other error is raised at once. `report`: called with each error before the
    pause that follows it. Raises the last error when the policy gives up."""
    backoff = Backoff(policy)
    while True:
        try:
            return await attempt()
        except on as error:
            if backoff.is_exhausted:
                raise
            if report is not None:
                report(error)
        await backoff.pause()


async def pause(policy: RetryPolicy) -> None:
    """Sleep the first pause of the policy. For loops in which each failure starts a new run of the policy."""
    await asyncio.sleep(policy.first_pause_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
