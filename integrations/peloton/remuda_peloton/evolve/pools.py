"""Facts about pools and what they may hold."""

from __future__ import annotations

import msgspec

from .. import facts
from ..rules.pools import ROOT, KindConfig
from ..rules.resources import by_kind
from ..state import Pool, State


def pool_created(state: State, fact: facts.PoolCreated) -> None:
    state.pools[fact.pool.id] = Pool(fact.pool)
    state.pools[fact.pool.parent].children[fact.pool.id] = None
    state.pools_changed()


def pool_updated(state: State, fact: facts.PoolUpdated) -> None:
    state.pools[fact.pool.id].configure(fact.pool)
    state.pools_changed()


def pool_deleted(state: State, fact: facts.PoolDeleted) -> None:
    pool = state.pools.pop(fact.pool_id)
    del state.pools[pool.config.parent].children[fact.pool_id]
    state.pools_changed()


def capacity_changed(state: State, fact: facts.CapacityChanged) -> None:
    """Root's reservation and limit are the capacity."""
    state.capacity, state.slack_cpu = fact.capacity, fact.slack_cpu
    root = state.pools[ROOT]
    resources = tuple(KindConfig(kind, amount, amount) for kind, amount in by_kind(fact.capacity).items())
    root.configure(msgspec.structs.replace(root.config, resources=resources))


def entitlements_changed(state: State, fact: facts.EntitlementsChanged) -> None:
    for one in fact.pools:
        pool = state.pools[one.pool_id]
        pool.entitlement, pool.non_slack, pool.slack = one.entitlement, one.non_slack, one.slack


def over_allocation_counted(state: State, fact: facts.OverAllocationCounted) -> None:
    state.pools[fact.pool_id].over_count = fact.count
