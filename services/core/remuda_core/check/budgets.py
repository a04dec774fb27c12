"""The invariants of budgets: who has one, what it counts, and what running work may still use of it."""

from __future__ import annotations

from ..costs import cost_of_preemption
from ..limits import IDLE_BUDGETS_KEPT
from ..rules.budget import amounts_of, period_at
from ..rules.resource import add, items_of
from ..state import Budget, BudgetKey, Partition, Queue, State
from ..timeouts import of_budget


def check_budgets(state: State) -> None:
    """Raises AssertionError with the difference."""
    known = set[BudgetKey]()
    for partition in state.partitions.values():
        for queue in partition.queues.values():
            known.update(_check_queue(state, partition, queue))
    idle = {key for key, _ in state.budgets.items() if state.budgets.is_idle(key)}
    assert {key for key, _ in state.budgets.items()} == known | idle, "budgets of other queues"
    assert not known & idle, f"budgets of queues are idle: {known & idle}"
    assert len(idle) <= IDLE_BUDGETS_KEPT, f"{len(idle)} budgets are idle"


def _check_queue(state: State, partition: Partition, queue: Queue) -> list[BudgetKey]:
    where = f"queue {queue.path}"
    key = BudgetKey(partition.name, queue.path)
    found = [(key.partition, one.path) for one in queue.path_to_root if one.settings.budget is not None]
    assert [budget.key for budget in queue.budgets] == found, f"{where}: other budgets than on its path"
    settings = queue.settings.budget
    if settings is None:
        return []
    budget = queue.budgets[0]
    assert state.budgets.find(key) is budget, f"{where}: its budget is another's"
    assert budget.used is queue.allocated, f"{where}: its budget has other sums"
    assert budget.settings == settings and budget.amounts == amounts_of(settings), f"{where}: another budget"
    assert budget.from_ms <= budget.at_ms <= state.now_ms, f"{where}: settled at {budget.at_ms}"
    assert state.timers.has(of_budget(budget)), f"{where}: nothing ends the period of its budget"
    assert budget.until_ms == period_at(settings, budget.until_ms - 1).until_ms, f"{where}: its period ends early"
    assert all(value > 0 for value in (*budget.past.values(), *budget.later.values())), f"{where}: {budget.past}"
    _check_plan(state, partition, queue, budget)
    return [key]


def _check_plan(state: State, partition: Partition, queue: Queue, budget: Budget) -> None:
    """The amounts that may still be used, and those that are held, counted anew."""
    below = set(queue.below())
    now_ms = min(state.now_ms, budget.until_ms)
    committed: dict[str, int] = {}
    ends = [(one.application, one.until_ms, one.fact.resource) for one in partition.allocations.values()]
    ends += [(one.application, one.until_ms, one.fact.resource) for one in partition.questions.values()]
    for application, until_ms, resource in ends:
        if application.queue in below and until_ms > now_ms:
            add(committed, resource, min(until_ms, budget.until_ms) - now_ms)
    names = {*committed, *budget.bounded}
    counted = {name: budget.committed_of(name) for name in names}
    assert items_of(counted) == items_of(committed), f"{budget}: {counted} is committed, counted anew {committed}"
    held: dict[str, int] = {}
    for preemption in partition.preemptions.values():
        if preemption.held and preemption.pending.application.queue in below:
            add(held, cost_of_preemption(preemption))
    assert items_of(budget.held) == items_of(held), f"{budget}: {budget.held} is held, counted anew {held}"
