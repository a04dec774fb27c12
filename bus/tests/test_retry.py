"""Retry policies: the pauses, the errors that are retried, and the time after which a policy gives up."""

import asyncio

import pytest

from remuda_bus.retry import Backoff, RetryPolicy, retry

AT_ONCE = RetryPolicy(0.0)


class Flaky:
    """An attempt that raises its errors one after the other, then returns how often it was called."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def attempt(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def pauses(policy: RetryPolicy, count: int) -> list[float]:
    found = [policy.first_pause_s]
    while len(found) < count:
        found.append(policy.pause_after(found[-1]))
    return found


def test_pauses_are_equal_or_double_up_to_the_longest() -> None:
    assert pauses(RetryPolicy(0.5), 4) == [0.5, 0.5, 0.5, 0.5]
    assert pauses(RetryPolicy(0.05, 0.3), 5) == [0.05, 0.1, 0.2, 0.3, 0.3]


async def test_backoff_sleeps_the_pauses_of_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    backoff = Backoff(RetryPolicy(1.0, 3.0))
    for _ in range(4):
        await backoff.pause()
    assert slept == [1.0, 2.0, 3.0, 3.0]


async def test_an_attempt_is_retried_until_it_returns() -> None:
    flaky, reported = Flaky(KeyError("a"), ValueError("b")), list[Exception]()
    assert await retry(flaky.attempt, AT_ONCE, on=(KeyError, ValueError), report=reported.append) == 3
    assert [type(error) for error in reported] == [KeyError, ValueError]


async def test_another_error_is_raised_at_once() -> None:
    flaky = Flaky(KeyError("a"), ValueError("b"))
    with pytest.raises(ValueError, match="b"):
        await retry(flaky.attempt, AT_ONCE, on=KeyError)
    assert flaky.calls == 2


async def test_a_policy_gives_up_with_the_last_error() -> None:
    flaky = Flaky(*(KeyError(number) for number in range(1_000_000)))
    with pytest.raises(KeyError) as raised:
        await retry(flaky.attempt, RetryPolicy(0.001, give_up_after_s=0.02), on=KeyError)
    assert raised.value.args == (flaky.calls - 1,)
    assert flaky.calls > 1


async def test_a_policy_that_gives_up_at_once_allows_one_attempt() -> None:
    flaky = Flaky(KeyError("a"))
    with pytest.raises(KeyError):
        await retry(flaky.attempt, RetryPolicy(0.0, give_up_after_s=0.0), on=KeyError)
    assert flaky.calls == 1
