"""Entitlements: what each pool may hold, calculated from the capacity, the demand and the allocations."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from ..commands import CalculateEntitlements, SetCapacity
from ..facts import CapacityChanged, Entitlement, EntitlementsChanged, Fact
from ..limits import ENTITLEMENTS_PER_FACT
from ..rules.entitlement import Entitlements, PoolTree, Steps, Usage, calculate
from ..rules.resources import Vector
from ..settings import Settings
from ..state import Pool, State


def set_capacity(state: State, settings: Settings, command: SetCapacity) -> Generator[Fact, None, None]:
    if (command.capacity, command.slack_cpu) != (state.capacity, state.slack_cpu):
        yield CapacityChanged(command.capacity, command.slack_cpu)
    yield from calculate_entitlements(state, settings, CalculateEntitlements())


def calculate_entitlements(
    state: State, settings: Settings, command: CalculateEntitlements
) -> Generator[Fact, None, None]:
    """Calculate the entitlements of all pools. Before the capacity is known, they stay as they are."""
    if state.capacity is None:
        return
    tree = state.pool_tree()
    pools = [state.pools[pool_id] for pool_id in tree.ids]
    result = calculated(state, settings, tree, pools)
    rows = zip(
        pools, result.entitlement.tolist(), result.non_slack.tolist(), result.slack.tolist(), strict=True
    )  # fmt: skip
    changed = [
        Entitlement(pool.config.id, tuple(entitlement), tuple(non_slack), tuple(slack))
        for pool, entitlement, non_slack, slack in rows
        if not _equal(pool, entitlement, non_slack, slack)
    ]
    for start in range(0, len(changed), ENTITLEMENTS_PER_FACT):
        yield EntitlementsChanged(tuple(changed[start : start + ENTITLEMENTS_PER_FACT]))


def calculated(
    state: State, settings: Settings, tree: PoolTree, pools: list[Pool], steps: list[Steps] | None = None
) -> Entitlements:
    """The entitlements with the demand and the allocations that the pools have now. The capacity must be known.
    `pools`: in the order of the tree. `steps`: gets the steps of each level."""
    assert state.capacity is not None
    scale, spread = settings.scale_reservations, settings.spread_leftovers
    return calculate(tree, usage(tree, pools), state.capacity, state.slack_cpu, scale, spread, steps)


def usage(tree: PoolTree, pools: list[Pool]) -> Usage:
    """The demand and the allocations of pools, summed up the tree. `pools`: in the order of the tree."""
    return Usage(
        tree,
        np.array([pool.demand for pool in pools]),
        np.array([pool.slack_demand for pool in pools]),
        np.array([pool.allocation.non_slack for pool in pools]),
        np.array([pool.allocation.slack for pool in pools]),
    )


def _equal(pool: Pool, entitlement: list[float], non_slack: list[float], slack: list[float]) -> bool:
    before: tuple[Vector, ...] = (pool.entitlement, pool.non_slack, pool.slack)
    return [list(one) for one in before] == [entitlement, non_slack, slack]
