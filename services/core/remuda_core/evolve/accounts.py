"""Opens accounts for queues, users and applications, and closes them (semantics section 23).

A queue has an account if its parent has a half-life. In a leaf queue, users have accounts with the sort policy
`fair-users`, applications with `fair` and a half-life. An application books in the accounts of its queues up to root
and in its own, or its user's: `booking.settle_accounts`.
"""

from __future__ import annotations

from ..rules.properties import FAIR, FAIR_USERS, memory, sort_policy
from ..state import Account, AccountKey, Application, BudgetKey, Queue, State
from ..state.accounts import QUEUE, USER
from .budgets import settle_with_accounts


def account_queue(state: State, partition: str, queue: Queue) -> None:
    """Give the queue the account that the settings of its parents ask for, or none."""
    queue.memory = memory(above.settings.properties for above in queue.path_to_root)
    half_life_ms = queue.parent.memory.half_life_ms if queue.parent is not None else 0
    key = AccountKey(partition, queue.path, QUEUE, "")
    if half_life_ms and queue.account is None:
        queue.account = state.accounts.join(key, half_life_ms, state.now_ms, queue.allocated)
    elif half_life_ms and queue.account is not None:
        queue.account.change_half_life(half_life_ms, state.now_ms)
    elif queue.account is not None or state.accounts:
        queue.account = None
        state.accounts.forget(key)
    settle_with_accounts(queue, state.budgets.find(BudgetKey(partition, queue.path)) if queue.settings.budget else None)


def account_again(state: State, partition: str, queue: Queue) -> None:
    """Follow other settings of the queue: of the accounts in and below it, and of the users of its leaves."""
    for below in queue.below():
        for application in below.applications.values():
            leave_accounts(state, application)
        account_queue(state, partition, below)
        if state.accounts and below.leaf:
            of_users = below.memory.half_life_ms if sort_policy(below.settings.properties) == FAIR_USERS else 0
            state.accounts.change_half_life(partition, below.path, USER, of_users, state.now_ms)
        for application in below.applications.values():
            enter_accounts(state, partition, application)


def unaccount_queue(state: State, queue: Queue) -> None:
    """Follow the end of a queue, which uses nothing. Its account stays, and those of its users."""
    if queue.account is not None:
        state.accounts.leave(queue.account, state.now_ms)
        queue.account = None
    queue.accounts = ()


def enter_accounts(state: State, partition: str, application: Application) -> None:
    """Let the application book in the accounts of its queue, and all that it uses in its own account or its user's."""
    queue, half_life_ms = application.queue, application.queue.memory.half_life_ms
    policy = sort_policy(queue.settings.properties)
    if policy == FAIR_USERS:
        key = AccountKey(partition, queue.path, USER, application.user)
        application.account = state.accounts.join(key, half_life_ms, state.now_ms)
    elif policy == FAIR and half_life_ms:
        application.account = Account(half_life_ms, state.now_ms)
    own = application.account
    if own is not None:
        own.settle(state.now_ms)
        own.book(application.allocated, 1)
        own.book(application.allocated_placeholder, 1)
    application.accounts = (*queue.accounts, own) if own is not None else queue.accounts


def leave_accounts(state: State, application: Application) -> None:
    """Undo `enter_accounts`. The past of a user stays with the queue."""
    for account in application.accounts:
        account.settle(state.now_ms)
    own = application.account
    if own is not None:
        own.book(application.allocated, -1)
        own.book(application.allocated_placeholder, -1)
        if own.key is not None:
            state.accounts.leave(own, state.now_ms)
    application.account, application.accounts = None, ()


def settle_queue(state: State, queue: Queue) -> None:
    """Bring the accounts of the queue and its parents up to date, before their use changes."""
    for account in queue.accounts:
        account.settle(state.now_ms)
