"""Facts of loans between queues."""

from __future__ import annotations

from .. import facts, timeouts
from ..state import Loan, LoanKey, State


def quota_lent(state: State, fact: facts.QuotaLent) -> None:
    key = LoanKey(fact.partition, fact.lender, fact.borrower)
    loan = Loan(fact.amounts, fact.guaranteed, fact.until_ms, fact.operator, fact.reason, state.now_ms)
    state.loans[key] = loan
    state.timers.put(timeouts.of_loan(key, loan))


def quota_loan_ended(state: State, fact: facts.QuotaLoanEnded) -> None:
    key = LoanKey(fact.partition, fact.lender, fact.borrower)
    state.timers.cancel(timeouts.of_loan(key, state.loans.pop(key)))
