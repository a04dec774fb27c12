"""Time-outs: the timer of each state, execution, release, question … or None if there is none.

`evolve` sets a timer when its subject begins and cancels it when its subject ends, so the number of timers is bounded
by the size of the state. Only a snapshot of an earlier version holds timers that no longer apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
    if not allocation.releasing or allocation.overdue:
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


# Subjects of timers


# By the kind of timer: how its subject is found, None if that is gone; and the timer that the subject has now.
Find = Callable[[State, Partition, Timer], Any]
TimerOf = Callable[[State, Partition, Any], Timer | None]


def _application(state: State, partition: Partition, timer: Timer) -> Application | None:
    return partition.applications.get(timer.application_id)


def _queue(state: State, partition: Partition, timer: Timer) -> Queue | None:
    return partition.queues.get(timer.key)


def _node(state: State, partition: Partition, timer: Timer) -> Node | None:
    return partition.nodes.get(timer.key)


def _allocation(state: State, partition: Partition, timer: Timer) -> Allocation | None:
    return partition.allocations.get(timer.key)


def _running(state: State, partition: Partition, timer: Timer) -> Allocation | Application | None:
    return (_allocation if timer.key else _application)(state, partition, timer)


def _ask(state: State, partition: Partition, timer: Timer) -> PendingAsk | None:
    application = partition.applications.get(timer.application_id)
    return application.asks.get(timer.key) if application is not None else None


def _class(state: State, partition: Partition, timer: Timer) -> PredicateClass | None:
    return partition.predicate_classes.get(timer.key)


OF_SUBJECTS: Final[dict[str, tuple[Find, TimerOf]]] = {
    "state": (_application, lambda state, partition, one: of_state(partition.name, one, state.timing)),
    "execution": (
        _running,
        lambda _, partition, one: (
            of_allocation(one) if isinstance(one, Allocation) else of_execution(partition.name, one)
        ),
    ),
    "placeholder": (_application, lambda _, partition, one: of_placeholders(partition.name, one)),
    "release": (_allocation, lambda _, partition, one: of_release(one)),
    "draining": (_queue, lambda _, partition, one: of_draining(partition.name, one)),
    "quota": (_queue, lambda _, partition, one: of_quota(partition.name, one)),
    "budget": (
        lambda state, partition, timer: state.budgets.find(BudgetKey(timer.partition, timer.key)),
        lambda _, partition, one: of_budget(one),
    ),
    "refusals": (_ask, lambda _, partition, one: of_refusals(one)),
    "class_question": (_class, lambda _, partition, one: of_class_question(partition.name, one)),
    "verdicts": (_class, lambda _, partition, one: of_verdicts(partition.name, one)),
    "reservation": (_node, lambda state, partition, one: of_reservation(partition.name, one, state.timing)),
    "leaving": (_node, lambda _, partition, one: of_leaving(partition.name, one)),
    "window": (lambda _, partition, timer: timer.key, lambda _, partition, one: of_window(partition, one)),
    "preemption": (
        lambda _, partition, timer: partition.preemptions.get((timer.application_id, timer.key)),
        lambda _, partition, one: of_preemption(one),
    ),
}


def subject_of(state: State, timer: Timer) -> Any:
    """The subject of the timer, for its function in `decide.expire`; None if it is gone, or has another timer now."""
    if timer.kind == "loan":  # also of a partition that is not there now
        lender, _, borrower = timer.key.partition(" ")
        key = LoanKey(timer.partition, lender, borrower)
        loan = state.loans.get(key)
        return key if loan is not None and timer == of_loan(key, loan) else None
    partition = state.partitions.get(timer.partition)
    if partition is None:
        return None
    if timer.kind == "predicate":  # in snapshots of earlier versions not all questions have a time
        return asked_by(partition, int(timer.key))
    find, timer_of = OF_SUBJECTS[timer.kind]
    subject = find(state, partition, timer)
    return subject if subject is not None and timer == timer_of(state, partition, subject) else None


def asked_by(partition: Partition, number: int) -> Question | Replacement | Preemption | None:
    """The subject of the open question to the RM with this number."""
    found = partition.questions.get(number) or partition.replacements_asked.get(number)
    return found or preemption_asked(partition, number)


def preemption_asked(partition: Partition, question: int) -> Preemption | None:
    """The preemption with this open question; None if there is none."""
    return next((p for p in partition.preemptions.values() if p.question and p.question == question), None)
