"""The use of budgets, and when they will be used up (semantics section 25): for people."""

from __future__ import annotations

from remuda_operations.queries import rows

from ..rules.budget import HOUR_MS
from ..rules.resource import clamp
from ..state import Budget


def use_of(budget: Budget) -> rows.BudgetUse:
    """The use of a budget in base units * hours, rounded down. The rate of the period so far says when a budget is used
    up."""
    settings, now_ms = budget.settings, budget.clock.now_ms
    used = {name: budget.used_of(name) for name in budget.amounts}
    committed = {name: budget.committed_of(name) for name in budget.amounts}
    left = {name: budget.left_of(name, budget.held) for name in budget.amounts}
    times = [(reached_ms(budget, name, amount), name) for name, amount in used.items()]
    reached = min(times, default=(budget.until_ms, ""))
    in_time = reached[0] < budget.until_ms
    return rows.BudgetUse(
        period=settings.calendar, period_ms=settings.period_ms, zone=settings.zone,
        from_ms=budget.from_ms, until_ms=budget.until_ms, amounts=settings.amounts,
        used=_in_hours(used), committed=_in_hours(committed), left=_in_hours(left),
        reached_ms=max(reached[0], now_ms) if in_time else 0, reached=reached[1] if in_time else "",
    )  # fmt: skip


def reached_ms(budget: Budget, name: str, used: int) -> int:
    """When all of the resource is used, if as much is used as on average since the period began. The end of the period
    or later: not in it."""
    whole, lasted_ms = budget.amounts[name], budget.clock.now_ms - budget.from_ms
    if used >= whole:
        return budget.clock.now_ms
    return budget.from_ms + whole * lasted_ms // used if used else budget.until_ms


def part_used(budget: Budget, name: str) -> float:
    """Which part of the budget is used; of a budget of nothing, all."""
    return budget.used_of(name) / budget.amounts[name] if budget.amounts[name] else 1.0


def _in_hours(amounts: dict[str, int]) -> dict[str, int]:
    return {name: clamp(amount // HOUR_MS) for name, amount in amounts.items()}
