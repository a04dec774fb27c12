"""Lookups that few RMs and queries need: built here before their first use, and maintained by the facts that follow.

They follow from the rest of the state, so neither a digest nor a snapshot contains them."""

from __future__ import annotations

from ..commands import ReleaseAsk
from ..rules.resource import sums
from ..state import Application, PendingSum, State


def prepare_release(state: State, command: ReleaseAsk) -> None:
    """List what the release of one allocation key looks up. Without the lists the decision is the same, but has to look
    at all applications and all their allocations."""
    partition, key = state.partitions.get(command.partition), command.allocation_key
    if partition is None or not key:
        return
    if not command.application_id:
        partition.holders.list_keys(partition.applications)
    for application in partition.named(command.application_id, key):
        if key not in application.asks:
            list_by_key(application)


def list_by_key(application: Application) -> None:
    if application.by_key is None:
        application.by_key = {}
        for uuid, allocation in application.allocations.items():
            application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def sum_pending(application: Application) -> PendingSum:
    """The sum of its pending allocations, for queries."""
    if application.pending_sum is None:
        application.pending_sum = PendingSum(sum(ask.pending for ask in application.asks.values()), sums())
        application.pending_sum.amounts.update(application.pending)
    return application.pending_sum
