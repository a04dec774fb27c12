"""Time-outs: the timer of each state, execution, release, question … or None if there is none.

`evolve` sets a timer when its subject begins and cancels it when its subject ends, so the number of timers is bounded
by the size of the state. Only a snapshot of an earlier version holds timers that no longer apply.
"""

from __future__ import annotations

from .limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS, RELEASE_OVERDUE_MS
from .rules import lifecycle
from .rules.windows import opens_ms, window_named
from .settings import Timing
from .state import (
    NEVER_MS,
    Allocation,
    Application,
    Budget,
    BudgetKey,
    Loan,
    LoanKey,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    Preemption,
    Question,
    Queue,
    Replacement,
    State,
    Timer,
    after,
)


def of_state(partition: str, application: Application, timing: Timing) -> Timer | None:
    """Ends the state of the application."""
    if application.state not in lifecycle.TIMEOUTS:
        return None
    at_ms = after(application.state_at_ms, lifecycle.lasts_ms(application.state, timing))
    return Timer(at_ms, "state", partition, application.id, "")


def of_execution(partition: str, application: Application) -> Timer | None:
    """Ends the execution of the application."""
    if application.state != lifecycle.RUNNING or not application.execution_limit_ms:
        return None
    at_ms = after(application.state_at_ms, application.execution_limit_ms)
    return Timer(at_ms, "execution", partition, application.id, "")


def of_placeholders(partition: str, application: Application) -> Timer | None:
    if not application.placeholders_until_ms:
        return None
    return Timer(application.placeholders_until_ms, "placeholder", partition, application.id, "")


def of_allocation(allocation: Allocation) -> Timer | None:
    """Ends the execution of the allocation."""
    fact = allocation.fact
    if fact.execution_timeout_ms <= 0:
        return None
    at_ms = after(allocation.at_ms, fact.execution_timeout_ms)
    return Timer(at_ms, "execution", fact.partition, fact.application_id, fact.uuid)


def of_release(allocation: Allocation) -> Timer | None:
    """Reports the release of the allocation as overdue."""
    fact = allocation.fact
    if not allocation.releasing:
        return None
    at_ms = allocation.releasing_ms + RELEASE_OVERDUE_MS
    return Timer(at_ms, "release", fact.partition, fact.application_id, fact.uuid)


def of_draining(partition: str, queue: Queue) -> Timer | None:
    """Reports that the queue still drains."""
    return Timer(queue.drain_report_ms, "draining", partition, "", queue.path) if queue.drain_report_ms else None


def of_quota(partition: str, queue: Queue) -> Timer | None:
    """Preempts what the queue uses above its maximum."""
    excess = queue.excess
    return Timer(excess.preempt_at_ms, "quota", partition, "", queue.path) if excess is not None else None


def of_budget(budget: Budget) -> Timer:
    """Begins the next period of the budget."""
    return Timer(budget.until_ms, "budget", budget.key.partition, "", budget.key.queue)


def of_loan(key: LoanKey, loan: Loan) -> Timer:
    """Ends the loan."""
    return Timer(loan.until_ms, "loan", key.partition, "", f"{key.lender} {key.borrower}")


def of_refusals(pending: PendingAsk) -> Timer | None:
    """Ends the refusals of the RM's predicates for the ask."""
    if not pending.refused:
        return None
    ask = pending.ask
    at_ms = pending.refused_at_ms + REFUSALS_LAST_MS
    return Timer(at_ms, "refusals", ask.partition, ask.application_id, ask.allocation_key)


def of_question(question: Question) -> Timer:
    fact = question.fact
    return Timer(fact.answer_by_ms, "predicate", fact.partition, fact.application_id, str(fact.question))


def of_class_question(partition: str, found: PredicateClass) -> Timer | None:
    """Ends the question to the RM about a predicate class."""
    return Timer(found.answer_by_ms, "class_question", partition, "", found.name) if found.question else None


def of_verdicts(partition: str, found: PredicateClass) -> Timer | None:
    """Ends verdicts about nodes for a predicate class."""
    at_ms = found.until_ms
    return Timer(at_ms, "verdicts", partition, "", found.name) if at_ms < NEVER_MS else None


def of_reservation(partition: str, node: Node, timing: Timing) -> Timer | None:
    """Ends the reservation of the node."""
    kept_for = node.reservation
    if kept_for is None:
        return None
    since_ms = node.reserved_ms if node.promise is None else max(node.reserved_ms, node.promise.promised_ms)
    at_ms = after(since_ms, timing.reservation_timeout_ms)
    return Timer(at_ms, "reservation", partition, kept_for.ask.application_id, node.id)


def of_leaving(partition: str, node: Node) -> Timer | None:
    """Drains the node."""
    at_ms = node.leaves_ms
    return Timer(at_ms, "leaving", partition, "", node.id) if at_ms < NEVER_MS else None


def of_window(partition: Partition, name: str) -> Timer | None:
    """Opens or closes the window."""
    known = partition.windows.get(name)
    if known is None:
        return None
    at_ms = known.until_ms if known.open else opens_ms(window_named(partition.settings, name), known.from_ms)
    return Timer(at_ms, "window", partition.name, "", name)


def of_replacement(replacement: Replacement) -> Timer:
    """Ends the question to the RM about the replacement."""
    fact, key = replacement.fact, str(replacement.question)
    return Timer(replacement.answer_by_ms, "predicate", fact.partition, fact.application_id, key)


def of_preemption(preemption: Preemption) -> Timer:
    ask = preemption.pending.ask
    if preemption.question:
        at_ms, key = preemption.at_ms + ANSWER_WITHIN_MS, str(preemption.question)
        return Timer(at_ms, "predicate", ask.partition, ask.application_id, key)
    at_ms = preemption.at_ms + RELEASE_OVERDUE_MS
    return Timer(at_ms, "preemption", ask.partition, ask.application_id, ask.allocation_key)


def still_applies(state: State, timer: Timer) -> bool:
    """The subject of the timer exists and still has this timer."""
    partition = state.partitions.get(timer.partition)
    if timer.kind in ("draining", "quota"):
        queue = partition.queues.get(timer.key) if partition is not None else None
        of_queue = of_draining if timer.kind == "draining" else of_quota
        return queue is not None and timer == of_queue(timer.partition, queue)
    if timer.kind == "loan":
        lender, _, borrower = timer.key.partition(" ")
        loan = state.loans.get(LoanKey(timer.partition, lender, borrower))
        return loan is not None and timer.at_ms == loan.until_ms
    if timer.kind == "budget":
        budget = state.budgets.find(BudgetKey(timer.partition, timer.key))
        return budget is not None and timer == of_budget(budget)
    if timer.kind in ("class_question", "verdicts"):
        found = partition.predicate_classes.get(timer.key) if partition is not None else None
        of_class = of_class_question if timer.kind == "class_question" else of_verdicts
        return found is not None and timer == of_class(timer.partition, found)
    if timer.kind == "window":
        return partition is not None and timer == of_window(partition, timer.key)
    if timer.kind == "leaving":
        leaving = partition.nodes.get(timer.key) if partition is not None else None
        return leaving is not None and timer == of_leaving(timer.partition, leaving)
    application = partition.applications.get(timer.application_id) if partition is not None else None
    if partition is None or application is None:
        return False
    allocation = partition.allocations.get(timer.key)
    pending = application.asks.get(timer.key)
    node = partition.nodes.get(timer.key)
    preemption = partition.preemptions.get((timer.application_id, timer.key))
    if timer.kind == "predicate":
        number = int(timer.key)
        return (
            number in partition.questions
            or number in partition.replacements_asked
            or any(number == asked.question for asked in partition.preemptions.values())
        )
    if timer.kind == "execution":
        return timer == (
            of_allocation(allocation) if allocation is not None else of_execution(timer.partition, application)
        )
    expected = {
        "state": of_state(timer.partition, application, state.timing),
        "placeholder": of_placeholders(timer.partition, application),
        "release": of_release(allocation) if allocation is not None else None,
        "reservation": of_reservation(timer.partition, node, state.timing) if node is not None else None,
        "refusals": of_refusals(pending) if pending is not None else None,
        "preemption": of_preemption(preemption) if preemption is not None else None,
    }
    return timer == expected[timer.kind]
