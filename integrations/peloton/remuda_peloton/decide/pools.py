"""Creates, changes and deletes pools."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from ..commands import CalculateEntitlements, CreatePool, DeletePool, UpdatePool
from ..facts import Fact, GangReduced, PoolCreated, PoolDeleted, PoolUpdated
from ..limits import NAME_CHARACTERS, POOL_DEPTH, POOLS
from ..rules.pools import (
    ROOT,
    InvalidPool,
    KindConfig,
    PoolConfig,
    check_cycle,
    check_numbers,
    check_path,
    check_policy,
    complete,
    find_by_path,
    path_of,
    validate,
)
from ..rules.resources import KINDS, ZERO, fits
from ..settings import Settings
from ..state import Pool, State
from .entitle import calculate_entitlements

Answer = Generator[Fact, None, InvalidPool | None]


def create_pool(state: State, settings: Settings, command: CreatePool) -> Generator[Fact, None, str | InvalidPool]:
    if command.pool.id in state.pools and command.pool.id != ROOT:
        return InvalidPool("already_exists", f"a pool with the id {command.pool.id} exists")
    try:
        config = validate(command.pool, known(state))
        _check_place(state, config)
    except InvalidPool as problem:
        return problem
    yield PoolCreated(config)
    yield from calculate_entitlements(state, settings, CalculateEntitlements())
    return config.id


def update_pool(state: State, settings: Settings, command: UpdatePool) -> Answer:
    former = state.pools.get(command.pool.id)
    if former is None:
        return InvalidPool("not_found", f"there is no pool {command.pool.id[:64]!r}")
    try:
        if command.force:
            config = complete(command.pool)
            _check_shape(config, former.config)
        else:
            config = validate(command.pool, known(state))
        if config.name != former.config.name:
            check_name(config)
    except InvalidPool as problem:
        return problem
    if config != former.config:
        yield PoolUpdated(config)
        yield from calculate_entitlements(state, settings, CalculateEntitlements())
    return None


def delete_pool(state: State, settings: Settings, command: DeletePool) -> Answer:
    try:
        check_path(command.path)
    except InvalidPool as problem:
        return InvalidPool("not_found", str(problem))
    pool_id = find_by_path(command.path, state.configs())
    if pool_id is None:
        return InvalidPool("not_found", f"there is no pool {command.path[:64]!r}")
    pool = state.pools[pool_id]
    if not pool.is_leaf:
        return InvalidPool("not_leaf", f"pool {pool_id} has children, or is root", id=pool_id)
    yield from drop_ended(state, pool)
    if is_busy(pool):
        return InvalidPool("busy", f"pool {pool_id} has tasks", id=pool_id)
    yield PoolDeleted(pool_id)
    yield from calculate_entitlements(state, settings, CalculateEntitlements())
    return None


def drop_ended(state: State, pool: Pool) -> Generator[Fact, None, None]:
    """Gangs whose tasks were killed, and at which no pass has looked since; up to one that has tasks."""
    for number in [number for queue in pool.queues.values() for number in queue]:
        if state.members(state.gangs[number]):
            return
        yield GangReduced(number)


def has_tasks(pool: Pool) -> bool:
    """Whether the pool is busy (`is_busy`) without the gangs that `drop_ended` would drop."""
    return bool(pool.runs) or not fits(pool.allocation.total, ZERO)


def is_busy(pool: Pool) -> bool:
    """Whether tasks wait in a pool or hold allocations of it."""
    held = pool.allocation.total, pool.demand, pool.slack_demand
    return bool(pool.runs) or any(pool.queues.values()) or not all(fits(one, ZERO) for one in held)


def known(state: State) -> dict[str, PoolConfig]:
    """The configurations of all pools. Before the capacity is known, root has no bounds."""
    configs = state.configs()
    if state.capacity is None:
        unbounded = tuple(KindConfig(kind, float("inf"), float("inf")) for kind in KINDS)
        configs[ROOT] = msgspec.structs.replace(configs[ROOT], resources=unbounded)
    return configs


def _check_place(state: State, config: PoolConfig) -> None:
    """Raises InvalidPool if the tree has no room for the pool, or work of its parent would be stuck."""
    if len(state.pools) > POOLS:
        raise InvalidPool("too_many_pools", f"there are {POOLS} pools, expected fewer")
    check_name(config)
    parent = state.pools[config.parent]
    if path_of(config.parent, state.configs()).count("/") >= POOL_DEPTH:
        raise InvalidPool("too_deep", f"the pool would be below {POOL_DEPTH} others, expected fewer")
    if parent.is_leaf and is_busy(parent):
        raise InvalidPool(
            "parent_is_busy", f"parent {config.parent} is a leaf with tasks, which it could not run any more"
        )


def check_name(config: PoolConfig) -> None:
    name = config.name
    if not name or "/" in name or not name.isprintable() or len(name) > NAME_CHARACTERS:
        expected = f"expected 1 to {NAME_CHARACTERS} printable characters without /"
        raise InvalidPool("invalid_name", f"name is {name[:64]!r}, {expected}", name=name)


def _check_shape(config: PoolConfig, former: PoolConfig) -> None:
    check_policy(config, {})
    check_cycle(config, {})
    check_numbers(config, {})
    if config.id == ROOT:
        raise InvalidPool("root_override", "the pool root cannot be changed")
    if config.parent != former.parent:
        message = f"parent of {config.id} is {former.parent}, and cannot become {config.parent}"
        raise InvalidPool("parent_changed", message, parent=config.parent)
