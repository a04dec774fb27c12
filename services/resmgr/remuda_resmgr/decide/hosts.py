"""Hosts: draining, ranking for it, and the recovery of runs that a host manager reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

from ..commands import HOST_MAINTENANCE, DrainHosts, PutHosts, RankHosts, RecoverRuns, RemoveHosts, SetCapacity
from ..facts import Fact, HostsPut, HostsRanked, HostsRemoved, RunRecovered
from ..rules.host_scores import HostTask, order
from ..rules.hosts import Room, covers, lacking, less, need, room_left
from ..rules.lifecycle import TERMINAL, UNALLOCATED
from ..rules.resources import total
from ..rules.task import Task
from ..settings import Settings
from ..state import Run, State
from .entitle import set_capacity
from .preemption import evict


def drain_hosts(state: State, settings: Settings, command: DrainHosts) -> Generator[Fact, None, tuple[str, ...]]:
    empty: list[str] = []
    for hostname in command.hostnames:
        runs = list(state.hosts.get(hostname, {}).values())
        if runs:
            yield from evict(state, settings, runs, HOST_MAINTENANCE)
        if hostname not in state.hosts:
            empty.append(hostname)
    return tuple(empty)


def put_hosts(state: State, settings: Settings, command: PutHosts) -> Generator[Fact, None, None]:
    changed = tuple(host for host in command.hosts if state.known_hosts.get(host.hostname) != host)
    if not changed:
        return
    drains = [
        host.hostname
        for host in changed
        if host.draining and not ((before := state.known_hosts.get(host.hostname)) and before.draining)
    ]
    yield HostsPut(changed)
    for hostname in drains:
        yield from evict(state, settings, list(state.hosts.get(hostname, {}).values()), HOST_MAINTENANCE)
    yield from _sum_capacity(state, settings)


def remove_hosts(state: State, settings: Settings, command: RemoveHosts) -> Generator[Fact, None, None]:
    known = tuple(name for name in dict.fromkeys(command.hostnames) if name in state.known_hosts)
    if known:
        yield HostsRemoved(known)
        yield from _sum_capacity(state, settings)


def why_no_room(state: State, hostname: str, tasks: Sequence[Task], ports: Sequence[int]) -> str:
    """Why the host does not take the tasks; empty: it does, or no host manager has described hosts."""
    if not state.known_hosts:
        return ""
    host = state.known_hosts.get(hostname)
    if host is None:
        return f"there is no host {hostname[:100]!r}"
    if host.draining:
        return f"{hostname} drains"
    reserved = state.reserved.get(hostname)
    if reserved is not None and any(task is not reserved.task for task in tasks):
        return f"{hostname} is reserved for another task"
    runs = state.hosts.get(hostname, {}).values()
    room = room_left(host, (run.task for run in runs))
    used = {port for run in runs for port in run.ports}
    taken = sorted(port for port, count in Counter(ports).items() if count > 1 or port in used)
    if taken:
        return f"{hostname}: port {taken[0]} is in use"
    wanted: Room = (0.0, 0.0, 0.0, 0.0, 0.0)
    for task in tasks:
        amounts = need(task)
        wanted = less(wanted, (-amounts[0], -amounts[1], -amounts[2], -amounts[3], -amounts[4]))
    return "" if covers(room, wanted) else f"{hostname} has not enough {', '.join(lacking(room, wanted))}"


def _sum_capacity(state: State, settings: Settings) -> Generator[Fact, None, None]:
    hosts = [host for host in state.known_hosts.values() if not host.draining]
    capacity, slack_cpu = total(host.capacity for host in hosts), sum(host.slack_cpu for host in hosts)
    yield from set_capacity(state, settings, SetCapacity(capacity, slack_cpu))


def rank_hosts(state: State, settings: Settings, command: RankHosts) -> Generator[Fact, None, None]:
    tasks = {
        hostname: [_host_task(run, state.now_ms) for run in state.hosts.get(hostname, {}).values()]
        for hostname in command.hostnames
    }
    ranked = tuple(order(command.hostnames, tasks))
    if ranked != state.ranked_hosts:
        yield HostsRanked(ranked)


def recover_runs(state: State, settings: Settings, command: RecoverRuns) -> Generator[Fact, None, None]:
    """Runs of pools that do not exist, of states without an allocation, and runs that are known are left alone."""
    for one in command.runs:
        known = one.task.id in state.runs or one.task.mesos_id in state.task_of
        if not known and one.pool_id in state.pools and one.state not in TERMINAL | UNALLOCATED:
            yield RunRecovered(one.task, one.pool_id, one.state, one.started_ms)


def _host_task(run: Run, now_ms: int) -> HostTask:
    task = run.task
    run_time_s = (now_ms - run.started_ms) / 1_000 if run.started_ms else None
    return HostTask(run.pool_id, task.type, run.state, task.priority, task.preemptible, task.controller, run_time_s)
