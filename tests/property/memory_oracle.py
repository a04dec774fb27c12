"""Section 23 of the semantics, word for word and slowly: effective shares.

Of an account it takes what was used until it last changed; `test_memory` compares that with the whole log. What has
happened since, and what a moment weighs, it computes by other ways than the core.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import frexp
from typing import Any

from remuda_core.rules.decay import STEPS, WEIGHTS
from remuda_core.rules.resource import Resource
from remuda_core.state import Account, Application, Partition, PendingAsk, Queue
from remuda_proto import durations

NONE = (float("-inf"), 0.0)


def setting(queue: Queue, name: str) -> str:
    """The property of the queue, or of the nearest queue above that has it."""
    return next((q.settings.properties[name] for q in queue.path_to_root if name in q.settings.properties), "")


def half_life_ms(queue: Queue) -> int:
    return durations.milliseconds(setting(queue, "fair.half-life")) or 0


def ahead_ms(queue: Queue) -> int:
    text = setting(queue, "fair.ahead")
    ahead = durations.milliseconds(text) if text else 300_000
    assert ahead is not None
    return min(ahead, half_life_ms(queue))


def weighs(at_ms: int, half_life: int) -> Fraction:
    """What all time up to `at_ms` weighs together, where a ms at time 0 weighs STEPS * 2^62, nearly."""
    return _weighs(at_ms, half_life)


@lru_cache(maxsize=10_000)
def _weighs(at_ms: int, half_life: int) -> Fraction:
    step_ms = Fraction(half_life, STEPS)
    steps = int(at_ms / step_ms)
    halves, step = divmod(steps, STEPS)
    before = (sum(WEIGHTS) + sum(WEIGHTS[:step])) * step_ms
    return (before + WEIGHTS[step] * (at_ms - steps * step_ms)) * STEPS * Fraction(2) ** halves


def moment_ms(queue: Queue, now_ms: int) -> int:
    """When the shares of what is below the queue are measured."""
    step_ms = max(1_000, half_life_ms(queue) // STEPS)
    return (now_ms // step_ms + 1) * step_ms + ahead_ms(queue)


def past(account: Account, name: str) -> Fraction:
    """All use that was over when the account was last brought up to date."""
    return account.past.get(name, 0) * Fraction(2) ** (64 * (account.at_ms // (64 * account.half_life_ms)))


def share(
    ranking: Queue, account: Account, due: Resource, weight: Fraction, now_ms: int, one: int = 1
) -> tuple[float, float]:
    """The share on a scale that is the same for all below the queue: not divided by what all time weighs."""
    half_life, at_ms = half_life_ms(ranking), moment_ms(ranking, now_ms)
    highest = NONE
    for name in {*account.used, *account.past}:
        used, value = account.used.get(name, 0), past(account, name)
        value += used * (weighs(at_ms, half_life) - weighs(account.at_ms, half_life))
        if due.get(name):
            highest = max(highest, rounded(value / (due[name] * weight)))
        elif used:
            highest = max(highest, rounded(weighs(at_ms, half_life) / one))
    return highest


def rounded(value: Fraction) -> tuple[float, float]:
    """As (exponent, mantissa), of 53 bits."""
    if not value:
        return NONE
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa, exponent = frexp(float(value / Fraction(2) ** bits))
    return exponent + bits, mantissa


def queue_share(parent: Queue, queue: Queue, due: Resource, now_ms: int) -> tuple[Any, ...]:
    assert queue.account is not None
    first = setting(parent, "fair.guaranteed") != "plain" and is_within(queue)
    weight = 1_000 * Fraction(queue.settings.properties.get("fair.weight", "1"))
    return (not first, *share(parent, queue.account, due, weight, now_ms, 1_000))


def share_in_leaf(partition: Partition, queue: Queue, application: Application, now_ms: int) -> tuple[Any, ...]:
    """Of the application, or of its user."""
    account = application.account
    assert account is not None
    weight, one = user_weight(queue, application)
    if half_life_ms(queue):
        return share(queue, account, partition.total, weight, now_ms, one)
    of_user = [other for other in queue.applications.values() if other.user == application.user]
    shares = [Fraction(0)]
    for name in {name for other in of_user for name in (*other.allocated, *other.allocated_placeholder)}:
        used = sum(other.allocated.get(name, 0) + other.allocated_placeholder.get(name, 0) for other in of_user)
        total = partition.total.get(name)
        shares += [Fraction(used, total) / weight if total else Fraction(1, one)] if used else []
    return (max(shares),)


def user_weight(queue: Queue, application: Application) -> tuple[Fraction, int]:
    """The weight of its user, and in which part of a unit it is given."""
    text = setting(queue, "fair.user-weights")
    if not text or queue.settings.properties.get("application.sort.policy") != "fair-users":
        return Fraction(1), 1
    given = {name: Fraction(number) for name, number in (one.split("=") for one in text.split(","))}
    of_groups = [given[f"@{group}"] for group in application.groups if f"@{group}" in given]
    return 1_000 * given.get(application.user, max(of_groups, default=Fraction(1))), 1_000


def late(asks: list[PendingAsk], now_ms: int) -> list[PendingAsk]:
    """The asks that have outwaited the patience of their queue, by priority and age."""
    found = []
    for ask in asks:
        queue = ask.application.queue
        text = setting(queue, "fair.patience")
        patience_ms = durations.milliseconds(text) if text else 48 * 3_600_000
        if half_life_ms(queue) and patience_ms and now_ms - ask.at_ms >= patience_ms:
            found.append(ask)
    return sorted(found, key=lambda ask: (-ask.ask.priority, ask.at_ms, ask.seq))


def goes_before(ask: PendingAsk, first: PendingAsk) -> bool:
    """Where their ways meet the past orders, and neither priority nor a guarantee says otherwise. And the one that is
    next is not as late."""
    if ask is first:
        return True
    mine, others = (list(reversed(one.application.queue.path_to_root)) for one in (ask, first))
    level = next((n for n, (a, b) in enumerate(zip(mine, others, strict=False)) if a is not b), len(mine))
    met = mine[level - 1]
    if not half_life_ms(met):
        return False
    by_priority = met.settings.properties.get("application.sort.priority", "enabled") == "enabled"
    if by_priority and seen(ask, mine[level:]) < seen(first, others[level:]):
        return False
    if level == len(mine) or setting(met, "fair.guaranteed") == "plain":
        return True
    return is_within(mine[level]) or not is_within(others[level])


def seen(ask: PendingAsk, below: list[Queue]) -> int:
    """The priority of the ask as the place sees it below which these queues are."""
    priority = ask.ask.priority
    for queue in reversed(below):
        offset = int(queue.settings.properties.get("priority.offset", "0"))
        fenced = queue.settings.properties.get("priority.policy") == "fence"
        priority = max(-(2**31), min(2**31 - 1, offset + (0 if fenced else priority)))
    return priority


def is_within(queue: Queue) -> bool:
    guaranteed = queue.settings.guaranteed
    return bool(guaranteed) and all(queue.allocated.get(name, 0) < least for name, least in guaranteed.items())
