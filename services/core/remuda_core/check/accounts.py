"""The invariants of accounts: who has one, what is used, and that sums of the past are never negative."""

from __future__ import annotations

from collections import Counter

from ..limits import IDLE_ACCOUNTS_KEPT
from ..rules.decay import EPOCH
from ..rules.properties import FAIR, FAIR_USERS, memory, sort_policy
from ..rules.resource import items_of, total_of
from ..state import Account, AccountKey, Application, Budget, Partition, Queue, State
from ..state.accounts import QUEUE, USER


def check_accounts(state: State) -> None:
    """Raises AssertionError with the difference."""
    members: Counter[AccountKey] = Counter()
    for partition in state.partitions.values():
        for queue in partition.queues.values():
            members.update(_check_queue(state, partition, queue))
            for application in queue.applications.values():
                members.update(_check_application(state, partition, application))
        for application in partition.applications.values():
            assert application.accounts == () or not application.terminal, (
                f"application {application.id} has ended and has accounts"
            )
    idle = 0
    for key, account in state.accounts.items():
        where = f"account of {key.kind} {key.name or key.queue}"
        assert account.key == key, f"{where}: it is another's"
        assert account.members == members[key], f"{where}: {account.members} members, there are {members[key]}"
        idle += not account.members
        _check_account(state, account, where)
    assert idle <= IDLE_ACCOUNTS_KEPT, f"{idle} accounts are idle"


def _check_queue(state: State, partition: Partition, queue: Queue) -> list[AccountKey]:
    """The keys of the accounts in which the queue is a member."""
    where = f"queue {queue.path}"
    assert queue.memory == memory(one.settings.properties for one in queue.path_to_root), f"{where}: another memory"
    above = list[Account | Budget]()
    for one in queue.path_to_root:
        above += [one.account] if one.account is not None else []
        above += one.budgets[:1] if one.settings.budget is not None else []
    assert queue.accounts == tuple(above), f"{where}: other accounts than those of its parents"
    half_life_ms = queue.parent.memory.half_life_ms if queue.parent is not None else 0
    assert (queue.account is not None) == bool(half_life_ms), f"{where}: it has an account, or none"
    if queue.account is None:
        return []
    key = AccountKey(partition.name, queue.path, QUEUE, "")
    assert state.accounts.find(key) is queue.account, f"{where}: its account is another's"
    assert queue.account.used is queue.allocated, f"{where}: its account has other sums"
    assert queue.account.half_life_ms == half_life_ms, f"{where}: another half-life"
    return [key]


def _check_application(state: State, partition: Partition, application: Application) -> list[AccountKey]:
    where, queue, account = f"application {application.id}", application.queue, application.account
    policy, half_life_ms = sort_policy(queue.settings.properties), queue.memory.half_life_ms
    own = (account,) if account is not None else ()
    assert application.accounts == (*queue.accounts, *own), f"{where}: other accounts than those of its queue"
    expected = policy == FAIR_USERS or (policy == FAIR and half_life_ms)
    assert (account is not None) == bool(expected), f"{where}: it has an account, or none"
    if account is None:
        return []
    assert account.half_life_ms == half_life_ms, f"{where}: another half-life"
    others = [application]
    if policy == FAIR_USERS:
        key = AccountKey(partition.name, queue.path, USER, application.user)
        assert state.accounts.find(key) is account, f"{where}: the account of its user is another's"
        others = [other for other in queue.applications.values() if other.user == application.user]
    used = total_of(part for other in others for part in (other.allocated, other.allocated_placeholder))
    assert items_of(account.used) == items_of(used), f"{where}: its account uses {account.used}, expected {used}"
    _check_account(state, account, where)
    return [account.key] if account.key is not None else []


def _check_account(state: State, account: Account, where: str) -> None:
    assert account.at_ms <= state.now_ms, f"{where}: settled at {account.at_ms}, after {state.now_ms}"
    if account.decay is None:
        assert not account.past, f"{where}: a past without a half-life"
        return
    assert account.epoch == account.decay.epoch(account.at_ms), f"{where}: measured in epoch {account.epoch}"
    assert account.clock == account.decay.at(account.at_ms, account.epoch), f"{where}: another clock"
    assert all(value > 0 for value in account.past.values()), f"{where}: {account.past}"
    assert account.clock < 1 << (EPOCH + 128), f"{where}: the clock is not measured from its landmark"
