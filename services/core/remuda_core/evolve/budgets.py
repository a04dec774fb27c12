"""Budgets of queues, and what allocations may still use of them (semantics section 25)."""

from __future__ import annotations

from .. import facts, timeouts
from ..costs import cost_of_preemption, ends_ms
from ..rules.budget import Cost, Period
from ..rules.resource import Resource, add
from ..state import UNBOUNDED, Allocation, Application, Budget, BudgetKey, Queue, State


def budget_queue(state: State, partition: str, queue: Queue) -> Budget | None:
    """The budget that the settings of the queue ask for. Its timer ends its period."""
    key, settings = BudgetKey(partition, queue.path), queue.settings.budget
    known = state.budgets.find(key)
    if settings is None:
        if known is not None:
            state.timers.cancel(timeouts.of_budget(known))
            state.budgets.forget(key)
        return None
    if known is not None:
        state.timers.cancel(timeouts.of_budget(known))
    budget = state.budgets.join(key, settings, queue.allocated)
    state.timers.put(timeouts.of_budget(budget))
    return budget


def budget_again(state: State, partition: str, queue: Queue) -> None:
    """Follow that the queue has a budget now, or none any more. What runs in and below it counts there from now on."""
    applications = [one for below in queue.below() for one in below.applications.values()]
    for application in applications:
        commit_all(state, partition, application, -1)
        hold_all(state, partition, application, -1)
    for below in queue.below():
        settle_with_accounts(below, budget_queue(state, partition, below))
    for application in applications:
        own = (application.account,) if application.account is not None else ()
        application.accounts = (*application.queue.accounts, *own)
        commit_all(state, partition, application, 1)
        hold_all(state, partition, application, 1)


def settle_with_accounts(queue: Queue, budget: Budget | None) -> None:
    """Let changes of use settle the accounts and the budgets of the queue and its parents."""
    above = queue.parent
    own = (budget,) if budget is not None else ()
    queue.budgets = (*own, *above.budgets) if above is not None else own
    account = (queue.account,) if queue.account is not None else ()
    queue.accounts = (*account, *own, *above.accounts) if above is not None else (*account, *own)


def unbudget_queue(state: State, queue: Queue) -> None:
    """Follow the end of a queue, which uses nothing."""
    if queue.settings.budget is not None:
        budget = queue.budgets[0]
        state.timers.cancel(timeouts.of_budget(budget))
        state.budgets.leave(budget)
    queue.budgets = ()


def period_began(state: State, fact: facts.BudgetPeriodBegan) -> Budget | None:
    """Returns the budget; None: its queue is gone."""
    budget = state.budgets.find(BudgetKey(fact.partition, fact.queue))
    if budget is None:
        return None
    budget.period_ends(Period(fact.from_ms, fact.until_ms))
    state.timers.put(timeouts.of_budget(budget))
    return budget


# Work that is running, or may soon be


def commit(allocation: Allocation, times: int) -> None:
    """Count what the allocation may still use by its bound, or no longer count it."""
    application, fact = allocation.application, allocation.fact
    if times > 0 and not allocation.until_ms:
        allocation.until_ms = ends_ms(application, fact, allocation.at_ms) or UNBOUNDED
    commit_until(application, allocation.until_ms, fact.resource, times)


def commit_until(application: Application, until_ms: int, resource: Resource, times: int) -> None:
    if until_ms > 0:
        for budget in application.queue.budgets:
            budget.commit(until_ms, resource, times)


def commit_all(state: State, partition: str, application: Application, times: int) -> None:
    """Commit or no longer commit all allocations of the application, and the allocations that the RM is asked about."""
    if not application.queue.budgets:
        return
    for allocation in application.allocations.values():
        commit(allocation, times)
    for question in state.partitions[partition].questions.values():
        if question.application is application:
            if times > 0 and not question.until_ms:
                ask = application.asks[question.fact.allocation_key].ask
                question.until_ms = ends_ms(application, ask, question.fact.answer_by_ms) or UNBOUNDED
            commit_until(application, question.until_ms, question.fact.resource, times)


def hold(application: Application, cost: Cost, times: int) -> None:
    """Hold what an ask of the application would use, for which others are preempted."""
    for budget in application.queue.budgets:
        add(budget.held, cost, times)


def hold_all(state: State, partition: str, application: Application, times: int) -> None:
    """Hold the costs of all preemptions for asks of the application."""
    if not application.held or not application.queue.budgets:
        return
    for preemption in state.partitions[partition].preemptions.values():
        if preemption.held and preemption.pending.application is application:
            hold(application, cost_of_preemption(preemption), times)
