"""All pools at once, as a file describes them."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import ApplyPools, CalculateEntitlements
from ..facts import Fact, PoolCreated, PoolDeleted, PoolUpdated
from ..rules.pools import InvalidPool
from ..settings import Settings
from ..state import State
from .entitle import calculate_entitlements
from .pool_plan import plan_of
from .pools import drop_ended

Answer = Generator[Fact, None, tuple[str, ...] | InvalidPool]


def apply_pools(state: State, settings: Settings, command: ApplyPools) -> Answer:
    """Answered with what has changed, in words; or with the first problem, and then no pool has."""
    try:
        plan = plan_of(state, command.pools)
    except InvalidPool as problem:
        return problem
    for pool in plan.retired:
        yield from drop_ended(state, pool)
    changes: list[str] = []
    for path, pool in plan.deleted:
        changes.append(f"{path} deleted")
        yield PoolDeleted(pool.config.id)
    for path, before, config in plan.different:
        changes.append(f"{path} {'created' if before is None else 'changed'}")
        yield PoolCreated(config) if before is None else PoolUpdated(config)
    if changes:
        yield from calculate_entitlements(state, settings, CalculateEntitlements())
    return tuple(changes)
