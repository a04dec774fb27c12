"""The effects of a description of all pools, as rows for operators: which pools change, and what becomes of
entitlements and of the tasks that hold more than them. Changes nothing. Amounts are by kind (cores, devices, MB,
MB)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .commands import DescribedPool
from .decide.apply_pools import DifferentPool, plan_of
from .decide.entitle import calculated
from .decide.preemption import preempted_states
from .limits import PREVIEW_ROWS, PREVIEW_TASKS
from .rules.entitlement import PoolTree
from .rules.pools import AMOUNTS, ROOT, PoolConfig, complete, path_of
from .rules.ranking import victims
from .rules.resources import KINDS, ZERO, Vector, as_vector, by_kind, fits, subtract
from .settings import Settings
from .state import Pool, State

Amounts = dict[str, float]
Value = float | str | list[str] | None
Held = tuple[Vector, Vector, Vector]  # the entitlement, what of it is not for slack, that of revocable tasks
CREATED, CHANGED, DELETED = "created", "changed", "deleted"


class FieldRow(msgspec.Struct):
    """A field of a pool that would change. `field`: its key in a pools file. `before`: the default if the pool is new;
    None: not configured."""

    field: str
    before: Value
    after: Value


class ChangeRow(msgspec.Struct):
    """A pool that would change. `change`: CREATED, CHANGED or DELETED. `fields`: the fields that would change."""

    path: str
    change: str
    fields: list[FieldRow]


class EffectRow(msgspec.Struct):
    """A pool whose entitlement would be another one. `over`: what the tasks of a leaf hold above the new one. `tasks`:
    how many preemption would choose to free it; `first_tasks`: the first of them."""

    path: str
    before: Amounts
    after: Amounts
    slack_before: Amounts
    slack_after: Amounts
    over: Amounts
    tasks: int
    first_tasks: list[str]


class Preview(msgspec.Struct):
    """The first rows of each list. `more_changes`, `more_effects`: how many there are beside them."""

    changes: list[ChangeRow]
    effects: list[EffectRow]
    more_changes: int
    more_effects: int


def preview(state: State, settings: Settings, described: Iterable[DescribedPool]) -> Preview:
    """Pools that would be over their entitlement are the first effects. What tasks hold and want is that of now. Takes
    as long as two calculations of all entitlements. Raises InvalidPool, as `plan_of`."""
    plan = plan_of(state, described)
    gone = {pool.config.id: path for path, pool in plan.deleted}
    changes = [ChangeRow(path, DELETED, []) for path in gone.values()]
    changes += [
        ChangeRow(one.path, CREATED if one.before is None else CHANGED, list(_fields(one))) for one in plan.different
    ]
    configs = {ROOT: state.pools[ROOT].config, **{one.id: one for one in plan.configs}}
    effects = sorted(_effects(state, settings, configs, gone), key=lambda row: (not row.over, row.path))
    return Preview(
        changes[:PREVIEW_ROWS], effects[:PREVIEW_ROWS],
        max(0, len(changes) - PREVIEW_ROWS), max(0, len(effects) - PREVIEW_ROWS),
    )  # fmt: skip


def _fields(one: DifferentPool) -> Iterator[FieldRow]:
    before = _values(one.before if one.before is not None else complete(PoolConfig(one.config.id, one.config.name)))
    for field, after in _values(one.config).items():
        if after != before[field]:
            yield FieldRow(field, before[field], after)


def _values(config: PoolConfig) -> dict[str, Value]:
    """By key, as people write them."""
    of_kinds: dict[str, Value] = {
        f"{kind}.{field}": getattr(config.kind(kind), field) for kind in KINDS for field in (*AMOUNTS, "type")
    }
    return {
        **of_kinds,
        "controller_limit": config.controller_limit_percent, "slack_limit": config.slack_limit_percent,
        "owning_team": config.owning_team, "description": config.description, "ldap_groups": list(config.ldap_groups),
    }  # fmt: skip


def _effects(
    state: State, settings: Settings, configs: dict[str, PoolConfig], gone: dict[str, str]
) -> Iterator[EffectRow]:
    """Both sides are calculated with what tasks hold and want now: the difference is that of the configurations."""
    if state.capacity is None:
        return
    now = _entitled(state, settings, state.tree if state.tree is not None else PoolTree(state.configs()))
    then = _entitled(state, settings, PoolTree(configs))
    nothing = (ZERO, ZERO, ZERO)
    for pool_id in dict.fromkeys((*now, *then)):
        before, after = now.get(pool_id, nothing), then.get(pool_id, nothing)
        if pool_id == ROOT or all(map(_same, before, after)):
            continue
        pool = state.pools.get(pool_id)
        over, chosen = _over(pool, after, settings) if pool is not None and pool.is_leaf else ({}, [])
        yield EffectRow(
            gone[pool_id] if pool_id in gone else path_of(pool_id, configs), by_kind(before[0]), by_kind(after[0]),
            by_kind(before[2]), by_kind(after[2]), over, len(chosen), chosen[:PREVIEW_TASKS],
        )  # fmt: skip


def _entitled(state: State, settings: Settings, tree: PoolTree) -> dict[str, Held]:
    pools = [state.pools.get(one) or Pool(PoolConfig(one, one)) for one in tree.ids]
    found = calculated(state, settings, tree, pools)
    tables = [map(as_vector, one.tolist()) for one in (found.entitlement, found.non_slack, found.slack)]
    return dict(zip(tree.ids, zip(*tables, strict=True), strict=True))


def _over(pool: Pool, after: Held, settings: Settings) -> tuple[Amounts, list[str]]:
    """The amounts of the pool above its new entitlement, and the tasks that preemption would choose."""
    non_slack = subtract(pool.allocation.non_slack, after[1])
    slack = subtract(pool.allocation.slack, after[2])
    chosen = victims(pool.runs.values(), non_slack, slack, settings.fewest_victims, preempted_states(settings))
    over = {kind: a + b for kind, a, b in zip(KINDS, non_slack, slack, strict=True) if a + b > 0}
    return over, [run.task.id for run in chosen]


def _same(one: Vector, other: Vector) -> bool:
    return fits(one, other) and fits(other, one)
