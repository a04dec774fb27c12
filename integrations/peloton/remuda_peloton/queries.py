"""Questions about a state that change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from .commands import Handed
from .decide.placements import handed
from .rules.admission import QUEUES
from .rules.hosts import Host, Room, room_left
from .rules.lifecycle import PLACING, RESERVED
from .rules.pools import PoolConfig, path_of
from .rules.resources import KINDS, Vector, add, subtract
from .state import Pool, Run, State


class PoolInfo(msgspec.Struct, frozen=True):
    """A pool as clients see it. `usage`: for each kind its name, the amount that non-revocable tasks hold, and the
    amount that revocable tasks hold."""

    config: PoolConfig
    children: tuple[str, ...]
    usage: tuple[tuple[str, float, float], ...]
    path: str


def tasks_by_hosts(state: State, hostnames: Sequence[str], task_type: int) -> dict[str, list[Handed]]:
    """The tasks on each host; hosts without tasks are left out. `task_type`: the type of the tasks; 0: any type."""
    answer: dict[str, list[Handed]] = {}
    for hostname in hostnames:
        runs = state.hosts.get(hostname, {}).values()
        tasks = [handed(run) for run in runs if task_type in (0, run.task.type)]
        if tasks:
            answer[hostname] = tasks
    return answer


def active_tasks(state: State, job_id: str, pool_id: str, states: Sequence[str]) -> Iterator[Run]:
    """The tracked runs and orphans that pass the filters; an empty filter passes every run."""
    for run in (*state.runs.values(), *state.orphans.values()):
        if job_id and run.task.job_id != job_id:
            continue
        if (not pool_id or run.pool_id == pool_id) and (not states or run.state in states):
            yield run


def pending_gangs(state: State, pool: Pool, limit: int) -> dict[str, list[tuple[str, ...]]]:
    """The IDs of tasks of the first `limit` gangs of each queue. Left out are queues without gangs, and
    gangs whose tasks were all killed: the next pass drops them."""
    answer: dict[str, list[tuple[str, ...]]] = {}
    for name in QUEUES:
        gangs: list[tuple[str, ...]] = []
        for number in pool.queues[name]:
            if len(gangs) >= limit:
                break
            if members := state.members(state.gangs[number]):
                gangs.append(tuple(run.task.id for run in members))
        if gangs:
            answer[name] = gangs
    return answer


def orphans(state: State, pool_id: str) -> list[Handed]:
    return [handed(run) for run in state.orphans.values() if not pool_id or run.pool_id == pool_id]


def pool_info(state: State, pool: Pool, configs: dict[str, PoolConfig] | None = None) -> PoolInfo:
    """The PoolInfo of a pool. `configs`: the configurations of all pools, if the caller has them."""
    held, slack = held_below(state, pool)
    usage = tuple(zip(KINDS, subtract(held, slack), slack, strict=True))
    path = path_of(pool.config.id, configs if configs is not None else state.configs())
    return PoolInfo(pool.config, tuple(pool.children), usage, path)


def hosts_changed(state: State, since_ms: int) -> Iterator[tuple[Host, Room, list[Run]]]:
    """The hosts that have changed since `since_ms`, the newest change first, each with its free room and its runs."""
    for hostname, at_ms in reversed(state.host_changes.items()):
        if at_ms < since_ms:
            break
        host, runs = state.known_hosts[hostname], state.runs_on(hostname)
        yield host, room_left(host, (run.task for run in runs)), runs


def shared_hosts_changed(state: State, name: str, since_ms: int) -> list[Host]:
    """The hosts shared under this name that have changed since then, or whose runs have."""
    found: list[Host] = []
    for hostname, at_ms in reversed(state.host_changes.items()):
        if at_ms < since_ms:
            break
        if (host := state.known_hosts[hostname]).shared_with == name:
            found.append(host)
    return found


def runs_of_engine(state: State, hostnames: Sequence[str]) -> Iterator[Run]:
    """The runs on the hosts, also orphans, and the runs that any engine has taken."""
    for hostname in hostnames:
        yield from state.hosts.get(hostname, {}).values()
    for runs in state.taken.values():
        yield from (run for run in runs.values() if run.state in (PLACING, RESERVED))


def held_below(state: State, pool: Pool) -> tuple[Vector, Vector]:
    """The amounts that the leaves below a pool hold: in all, and by revocable tasks."""
    held, slack, below = pool.allocation.total, pool.allocation.slack, list(pool.children)
    while below:
        child = state.pools[below.pop()]
        held, slack = add(held, child.allocation.total), add(slack, child.allocation.slack)
        below.extend(child.children)
    return held, slack
