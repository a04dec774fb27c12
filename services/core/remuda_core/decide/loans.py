"""Loans between queues: until a time, one queue has less of its maximum or guarantee, and another one more (semantics
section 27).

The settings of a queue are those of the configuration, or of an open window, with what is lent to it and by it. What is
lent is added and taken away, so the settings are those never lent once all loans have ended, in whatever order they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from remuda_proto.bounds import shown

from .. import facts
from ..facts import Fact
from ..rules.resource import Resource
from ..settings import QueueSettings
from ..state import Loan, LoanKey, Partition, State
from .quota import settle_quotas

# The setting of which amounts are lent, by whether it is the guarantee.
KINDS = {False: "max", True: "guaranteed"}


def with_loans(partition: Partition, path: str, settings: QueueSettings) -> QueueSettings:
    """The settings of a queue with what is lent to it and by it."""
    for key, loan in partition.loans.items():
        if key.partition == partition.name and path in (key.lender, key.borrower):
            settings = shifted(settings, loan, 1 if path == key.borrower else -1)
    return settings


def without_borrowed(partition: Partition, path: str, settings: QueueSettings) -> QueueSettings:
    """The settings of a queue without what is lent to it: that may end before what the queue lends."""
    for key, loan in partition.loans.items():
        if key.partition == partition.name and path == key.borrower:
            settings = shifted(settings, loan, -1)
    return settings


def shifted(settings: QueueSettings, loan: Loan, times: int) -> QueueSettings:
    """The settings with the amounts of the loan added (1) or taken away (-1). A resource without a maximum, as windows
    of the calendar may have it, is neither raised nor lowered."""
    kind = KINDS[loan.guaranteed]
    amounts = dict(getattr(settings, kind))
    for name, amount in loan.amounts.items():
        if loan.guaranteed or name in amounts:
            amounts[name] = amounts.get(name, 0) + amount * times
    return replace(settings, **{kind: amounts})


def change_queues(partition: Partition, key: LoanKey, loan: Loan, times: int, now_ms: int) -> Iterator[Fact]:
    """Change the settings of both queues, as far as they are there, as the loan begins (1) or ends (-1). What is above
    a maximum then is given back after the delay of its queue."""
    queues = []
    for path, sign in ((key.lender, -times), (key.borrower, times)):
        queue = partition.queues.get(path)
        if queue is not None:
            settings = shifted(queue.settings, loan, sign)
            yield facts.QueueChanged(
                partition.name, path, queue.leaf, queue.managed, settings, (KINDS[loan.guaranteed],)
            )
            queues.append(queue)
    yield from settle_quotas(partition, queues, now_ms)


def end_loan(state: State, partition: Partition | None, key: LoanKey, reason: str, now_ms: int) -> Iterator[Fact]:
    loan = state.loans[key]
    yield facts.QuotaLoanEnded(*key, reason)
    if partition is not None:
        yield from change_queues(partition, key, loan, -1, now_ms)


def end_loans_beyond(partition: Partition, path: str, settings: QueueSettings, now_ms: int) -> Iterator[Fact]:
    """End loans of the queue, the oldest first, until these settings, of a window or outside of it, leave room for the
    others."""
    for key, loan in list(partition.loans.items()):
        if key.partition == partition.name and key.lender == path and _lends_more(partition, path, settings, loan):
            yield facts.QuotaLoanEnded(*key, f"queue {path} has less than it lends")
            yield from change_queues(partition, key, loan, -1, now_ms)


def _lends_more(partition: Partition, path: str, settings: QueueSettings, of: Loan) -> bool:
    """Whether the queue lends more of something that the loan is about than it has by these settings. A maximum that a
    window takes away is not lent."""
    own: Resource = getattr(settings, KINDS[of.guaranteed])
    loans = [one for key, one in partition.loans.items() if key.partition == partition.name and key.lender == path]
    return any(
        sum(one.amounts.get(name, 0) for one in loans if one.guaranteed == of.guaranteed) > own.get(name, 0)
        for name in of.amounts
        if of.guaranteed or name in own
    )


def loan_due(state: State, partition: Partition | None, key: LoanKey, now_ms: int) -> Iterator[Fact]:
    """End a loan whose time is over, also of a partition that is not there now."""
    yield from end_loan(state, partition, key, "its time is over", now_ms)


def loans_that_no_longer_fit(
    state: State, partition: str, settings: Mapping[str, QueueSettings], now_ms: int
) -> Iterator[Fact]:
    """End the loans of the partition that its new settings, by the paths of queues, leave no room for."""
    concerned = [key for key in state.loans if key.partition == partition]
    for key in sorted(concerned, key=lambda key: key.lender in settings and key.borrower in settings):  # others first
        others = [(other, one) for other, one in state.loans.items() if other.partition == partition and other != key]
        problem = next(problems_of_loan(settings, key, state.loans[key], others), None)
        if problem is not None:
            yield from end_loan(state, state.partitions.get(partition), key, problem, now_ms)


def problems_of_loan(
    settings: Mapping[str, QueueSettings], key: LoanKey, loan: Loan, others: Iterable[tuple[LoanKey, Loan]]
) -> Iterator[str]:
    """Why queues with these settings, without any loan, cannot lend so much beside the other loans."""
    for path in (key.lender, key.borrower):
        if path not in settings:
            yield f"queue {shown(path)} does not exist, expected a configured queue"
            return
    kind = KINDS[loan.guaranteed]
    what = "guarantee" if loan.guaranteed else "maximum"
    lent: dict[str, int] = {}
    for other, one in others:
        if other.lender == key.lender and one.guaranteed == loan.guaranteed:
            for name, amount in one.amounts.items():
                lent[name] = lent.get(name, 0) + amount
    own: Resource = getattr(settings[key.lender], kind)
    for name, amount in sorted(loan.amounts.items()):
        left = own.get(name, 0) - lent.get(name, 0)
        if name not in own:
            yield f"queue {key.lender} has no {what} of {name}, expected one of which it lends"
        elif amount > left:
            yield f"queue {key.lender} has {name}={left} left of its {what}, expected at least the {amount} it lends"
        if not loan.guaranteed and name not in settings[key.borrower].max:
            yield f"queue {key.borrower} has no {what} of {name}, expected one that is raised"
        borrower = settings[key.borrower]
        due = borrower.guaranteed.get(name, 0) + amount
        if loan.guaranteed and due > borrower.max.get(name, due):
            most = borrower.max[name]
            yield f"queue {key.borrower} would be guaranteed {name}={due}, expected at most its maximum, {most}"
    if loan.guaranteed and key.lender.rpartition(".")[0] != key.borrower.rpartition(".")[0]:
        yield f"queues {key.lender} and {key.borrower}: expected two queues of one parent, to lend a guarantee"
