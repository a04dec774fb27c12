"""Pools, and why tasks and gangs wait, as rows for operators. Amounts are by kind (cores, devices, MB, MB)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from .decide.entitle import calculated
from .limits import EXPLAINED_TASKS
from .queries import held_below
from .rules.admission import QUEUES, Obstacle, obstacle
from .rules.entitlement import PoolTree, Steps
from .rules.lifecycle import PENDING, READY
from .rules.pools import ROOT, PoolConfig, path_of
from .rules.resources import KINDS, by_kind, total
from .settings import Settings
from .state import Gang, Pool, Run, State

Amounts = dict[str, float]
GANG: Final = "gang/"  # before the number of a gang, where an ID of a task could stand


class KindRow(msgspec.Struct):
    reservation: float
    limit: float
    share: float
    type: str


class PoolRow(msgspec.Struct):
    """Amounts of a pool with children are those of its leaves. Percents: None: not configured. `queues`: gangs by
    queue, of a leaf. `over_cycles`: in how many preemption cycles, one after the other, it held more than its
    entitlement."""

    path: str
    id: str
    leaf: bool
    resources: dict[str, KindRow]
    controller_limit: Amounts | None
    slack_limit: Amounts
    controller_limit_percent: float | None
    slack_limit_percent: float | None
    entitlement: Amounts
    non_slack_entitlement: Amounts
    slack_entitlement: Amounts
    allocation: Amounts
    slack_allocation: Amounts
    demand: Amounts
    slack_demand: Amounts
    tasks: int
    queues: dict[str, int]
    over_cycles: int
    owning_team: str
    description: str


class RuleRow(msgspec.Struct):
    """A rule of admission that does not admit a gang. `wanted`: what would be held with the gang, of at most `bound`;
    both only in the kinds in which the bound is exceeded."""

    rule: str
    wanted: Amounts
    bound: Amounts


class TaskRow(msgspec.Struct):
    """A run of a task. `gang`: the number of its gang while it waits; 0: it does not wait. `orphan`: the task has a
    newer run."""

    task: str
    run: str
    pool: str
    state: str
    reason: str
    since_ms: int
    due_ms: int
    host: str
    resource: Amounts
    priority: int
    preemptible: bool
    revocable: bool
    controller: bool
    attempts: float
    cycles: float
    gang: int
    orphan: bool


class GangRow(msgspec.Struct):
    """A gang that waits. `ahead`: gangs before it in its queue. `rule`: why it is not admitted now; None: it waits for
    the next pass, or is READY and waits for an engine."""

    number: int
    pool: str
    queue: str
    ahead: int
    size: int
    tasks: list[str]
    resource: Amounts
    rule: RuleRow | None


class StepRow(msgspec.Struct):
    """The entitlement of a pool in one kind: of what its parent has, the reserved part of the need, then more of the
    need by share, then what is left by share. `need`: allocation, demand and slack, up to the limit."""

    kind: str
    parent_has: float
    need: float
    reservation: float
    limit: float
    share: float
    reserved: float
    with_need: float
    entitlement: float


class PoolSteps(msgspec.Struct):
    pool: str
    kinds: list[StepRow]


class Explanation(msgspec.Struct):
    """The explanation of a task or of a gang. `pools`: the pools on the way from root to the leaf, each with the steps
    of its entitlement, computed with what tasks hold and want now."""

    tasks: list[TaskRow]
    gang: GangRow | None
    pools: list[PoolSteps]


def pool_rows(state: State, after: str, limit: int, below: str = "/") -> list[PoolRow]:
    """The next `limit` pools behind the path `after`, by path; only `below` and the pools below it."""
    paths: dict[str, str] = {"/": ROOT}
    waiting = [("/", state.pools[ROOT])]
    while waiting:
        path, pool = waiting.pop()
        for child in pool.children:
            one = state.pools[child]
            name = f"{path.rstrip('/')}/{one.config.name}"
            paths[name] = child
            waiting.append((name, one))
    inside = below.rstrip("/") + "/"
    chosen = sorted(path for path in paths if path > after and (path + "/").startswith(inside))
    return [_pool_row(state, path, state.pools[paths[path]]) for path in chosen[:limit]]


def explanation(state: State, settings: Settings, sought: str) -> Explanation | None:
    """Explain why a task or a gang waits. `sought`: the ID of a task or a run, or GANG and a number. None: there is
    none now."""
    if sought.startswith(GANG):
        gang = state.gangs.get(int(number)) if (number := sought.removeprefix(GANG)).isdecimal() else None
        if gang is None:
            return None
        runs, pool_id = list(state.members(gang)), gang.pool_id
    else:
        run = state.runs.get(sought) or state.orphans.get(sought) or state.runs.get(state.task_of.get(sought, ""))
        if run is None:
            return None
        runs, pool_id, gang = [run], run.pool_id, state.gangs.get(run.gang)
    configs = state.configs()
    tasks = [_task_row(state, run, configs) for run in runs[:EXPLAINED_TASKS]]
    row = _gang_row(state, settings, gang, configs) if gang is not None else None
    return Explanation(tasks, row, entitlement_steps(state, settings, pool_id))


def entitlement_steps(state: State, settings: Settings, pool_id: str) -> list[PoolSteps]:
    """The pools from below root to this one. Takes as long as one calculation of all entitlements. Empty before the
    capacity is known."""
    if state.capacity is None:
        return []
    tree = state.tree if state.tree is not None else PoolTree(state.configs())
    steps: list[Steps] = []
    found = calculated(state, settings, tree, [state.pools[one] for one in tree.ids], steps)
    numbers = {one: number for number, one in enumerate(tree.ids)}
    configs, rows = state.configs(), list[PoolSteps]()
    while pool_id != ROOT:
        config, number = configs[pool_id], numbers[pool_id]
        level = next(one for one in steps if one.level.start <= number < one.level.end)
        place, above = number - level.level.start, found.entitlement[numbers[config.parent]]
        kinds = [
            StepRow(
                kind, float(above[at]), float(level.need[place, at]), config.kind(kind).reservation,
                config.kind(kind).limit, config.kind(kind).share, float(level.reserved[place, at]),
                float(level.by_need[place, at]), float(level.entitlement[place, at]),
            )
            for at, kind in enumerate(KINDS)
        ]  # fmt: skip
        rows.append(PoolSteps(path_of(pool_id, configs), kinds))
        pool_id = config.parent
    return rows[::-1]


def _pool_row(state: State, path: str, pool: Pool) -> PoolRow:
    config, (held, slack_held) = pool.config, held_below(state, pool)
    leaves = list(_leaves(state, pool))
    return PoolRow(
        path, config.id, pool.is_leaf,
        {one.kind: KindRow(one.reservation, one.limit, one.share, one.type) for one in config.resources},
        None if pool.controller_limit is None else by_kind(pool.controller_limit), by_kind(config.slack_limit()),
        config.controller_limit_percent, config.slack_limit_percent,
        by_kind(pool.entitlement), by_kind(pool.non_slack), by_kind(pool.slack), by_kind(held), by_kind(slack_held),
        by_kind(total(leaf.demand for leaf in leaves)), by_kind(total(leaf.slack_demand for leaf in leaves)),
        sum(len(leaf.runs) for leaf in leaves),
        {name: len(pool.queues[name]) for name in QUEUES} if pool.is_leaf else {},
        pool.over_count, config.owning_team, config.description,
    )  # fmt: skip


def _leaves(state: State, pool: Pool) -> Iterator[Pool]:
    below = [pool]
    while below:
        one = below.pop()
        if not one.children:
            yield one
        below.extend(state.pools[child] for child in one.children)


def _task_row(state: State, run: Run, configs: dict[str, PoolConfig]) -> TaskRow:
    task = run.task
    return TaskRow(
        task.id, task.mesos_id, path_of(run.pool_id, configs), run.state, run.reason, run.since_ms, run.due_ms,
        run.hostname, by_kind(task.resource), task.priority, task.preemptible, task.revocable, task.controller,
        run.attempts, run.cycles, run.gang, task.mesos_id in state.orphans,
    )  # fmt: skip


def _gang_row(state: State, settings: Settings, gang: Gang, configs: dict[str, PoolConfig]) -> GangRow:
    pool, members = state.pools[gang.pool_id], state.members(gang)
    queue = state.ready[gang.tasks[0].type] if gang.queue == READY else pool.queues[gang.queue]
    ahead = next(place for place, number in enumerate(queue) if number == gang.number)
    waits = members and members[0].state == PENDING
    rule = obstacle(gang.traits, pool.room(), settings.preemption_enabled) if waits else None
    return GangRow(
        gang.number, path_of(gang.pool_id, configs), gang.queue, ahead, len(members),
        [run.task.id for run in members[:EXPLAINED_TASKS]], by_kind(gang.traits.resource),
        None if rule is None else _rule_row(rule),
    )  # fmt: skip


def _rule_row(rule: Obstacle) -> RuleRow:
    wanted, bound = by_kind(rule.wanted), by_kind(rule.bound)
    return RuleRow(rule.rule, {kind: wanted[kind] for kind in rule.kinds}, {kind: bound[kind] for kind in rule.kinds})
