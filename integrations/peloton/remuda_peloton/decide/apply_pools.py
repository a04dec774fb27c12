"""All pools at once, as a file describes them.

Each rule is checked on the tree that would be, so that an amount may move from one pool to another. The preview of a
file computes the same plan (`plan_of`), which changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from ..commands import ApplyPools, CalculateEntitlements, DescribedPool
from ..facts import Fact, PoolCreated, PoolDeleted, PoolUpdated
from ..limits import POOL_DEPTH, POOLS
from ..rules.pools import (
    ROOT,
    InvalidPool,
    PoolConfig,
    check_controller_limit,
    check_numbers,
    check_own_children,
    check_pool,
    complete,
)
from ..settings import Settings
from ..state import Pool, State
from .entitle import calculate_entitlements
from .pools import check_name, drop_ended, has_tasks, known

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


class DifferentPool(NamedTuple):
    """A pool that would change. `before`: its configuration now; None: the pool is new."""

    path: str
    before: PoolConfig | None
    config: PoolConfig


class Plan(NamedTuple):
    """The changes that a description of all pools leads to. `configs`: the described pools. `deleted`: existing pools
    below root that are not described, children first. `different`: new pools and changed pools, parents first.
    `retired`: leaves that will be deleted or become inner pools."""

    configs: tuple[PoolConfig, ...]
    deleted: tuple[tuple[str, Pool], ...]
    different: tuple[DifferentPool, ...]
    retired: tuple[Pool, ...]


def plan_of(state: State, described: Iterable[DescribedPool]) -> Plan:
    """Pools that are not described are to be deleted, and must have no tasks. Raises InvalidPool for the first problem,
    with the path of the pool as `at`; empty: it is about all of them."""
    existing = dict(_by_path(state))
    wanted = _resolved(existing, described)
    _check_children(known(state)[ROOT], existing, wanted)
    parents = {_above(path) for path in wanted}
    retired: list[Pool] = []
    for path, pool in existing.items():
        if not pool.is_leaf or (path in wanted and path not in parents):
            continue
        if has_tasks(pool) and path in parents:
            message = "is a leaf with tasks, which it could not run any more with pools below it"
            raise InvalidPool("parent_is_busy", message, at=path)
        if has_tasks(pool):
            raise InvalidPool("busy", f"pool {path} is not described, and has tasks", at="")
        retired.append(pool)
    deleted = [(path, pool) for path, pool in existing.items() if path not in wanted]
    different = [
        DifferentPool(path, existing[path].config if path in existing else None, config)
        for path, config in wanted.items()
        if path not in existing or config != existing[path].config
    ]
    return Plan(tuple(wanted.values()), tuple(reversed(deleted)), tuple(different), tuple(retired))


def _by_path(state: State) -> Iterator[tuple[str, Pool]]:
    """Pools below root, parents first."""
    above = [("", state.pools[ROOT])]
    for path, pool in above:
        for child in pool.children:
            one = f"{path}/{state.pools[child].config.name}", state.pools[child]
            above.append(one)
            yield one


def _resolved(existing: Mapping[str, Pool], described: Iterable[DescribedPool]) -> dict[str, PoolConfig]:
    """By path, parents first: with the IDs of pools that exist, and of parents."""
    wanted: dict[str, PoolConfig] = {}
    for one in sorted(described, key=lambda one: one.path.count("/")):
        with_place = _placed(one, wanted)
        before = existing.get(one.path)
        if before is not None:
            with_place = replace(with_place, id=before.config.id, change_log=before.config.change_log)
        try:
            for check in (check_pool, check_controller_limit, check_numbers):
                check(with_place, {})
            check_name(with_place)
        except InvalidPool as problem:
            raise _at(one.path, problem) from None
        wanted[one.path] = complete(with_place)
    if len(wanted) > POOLS:
        raise InvalidPool("too_many_pools", f"{len(wanted)} pools are described, expected at most {POOLS}", at="")
    return wanted


def _placed(one: DescribedPool, wanted: Mapping[str, PoolConfig]) -> PoolConfig:
    """With its name and its parent, which its path says."""
    above, slash, name = one.path.rpartition("/")
    if one.path in wanted:
        raise InvalidPool("name_taken", "is described twice, expected once", at=one.path)
    if not slash or one.path.count("/") > POOL_DEPTH:
        message = f"path is {one.path[:64]!r}, expected one to {POOL_DEPTH} names, each behind a slash"
        raise InvalidPool("invalid_name", message, at=one.path)
    if above and above not in wanted:
        raise InvalidPool("parent_not_found", f"the pool above, {above}, is not described", at=one.path)
    return replace(one.config, name=name, parent=wanted[above].id if above else ROOT)


def _check_children(root: PoolConfig, existing: Mapping[str, Pool], wanted: Mapping[str, PoolConfig]) -> None:
    """No pool is below its children. Raises InvalidPool, which speaks of pools by their paths: IDs may be new. Hosts
    may go at any time, so pools that stay as they are may have more than root."""
    children: dict[str, dict[str, PoolConfig]] = {}
    for path, config in wanted.items():
        above = _above(path)
        children.setdefault(above, {})[path] = replace(config, id=path, parent=above)
    if all(path in existing and existing[path].config == wanted[path] for path in children.get("", ())):
        children.pop("", None)
    for above, below in children.items():
        try:
            check_own_children(replace(wanted[above] if above else root, id=above), below)
        except InvalidPool as problem:
            raise _at(above or problem.details.get("child", ""), problem) from None


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _at(path: str, problem: InvalidPool) -> InvalidPool:
    return InvalidPool(problem.code, str(problem), **{**problem.details, "at": path})
