"""Hosts: described, drained, reserved, ranked for draining, and shared with a resource manager of si.v1.

One engine describes the hosts that are nodes of that resource manager, too, and places there what the core of that
resource manager has allocated (docs/adr/shared-hosts.md). The engine's epoch fences: a request of an engine that was
followed by another engine has no effect. A reserved host takes no other task, so room grows there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

from msgspec.structs import replace

from ..commands import (
    HOST_MAINTENANCE,
    REVOKE_RESOURCES,
    DrainHosts,
    PreemptRuns,
    PutHosts,
    RankHosts,
    RecoverRuns,
    RemoveHosts,
    Reservation,
    ReserveHosts,
    SetCapacity,
    SharedEngine,
    ShareHosts,
    SharingAnswer,
)
from ..facts import Fact, HostReserved, HostsPut, HostsRanked, HostsRemoved, HostsShared, RunRecovered, TaskMoved
from ..limits import RESERVED_PERCENT, SHARINGS
from ..rules.hosts import Host, Room, SharedHosts, covers, lacking, less, need, room_left
from ..rules.lifecycle import ON_HOST, RESERVED, due_ms
from ..rules.ranking import HostTask, order
from ..rules.resources import Vector, total
from ..rules.task import Task, problem_of
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
        if not state.runs_on(hostname):
            empty.append(hostname)
    return tuple(empty)


def put_hosts(state: State, settings: Settings, command: PutHosts) -> Generator[Fact, None, None]:
    """Put the hosts of a host manager. Shared hosts stay as they are: only their engine describes them."""
    yield from put_all(
        state, settings, PutHosts(tuple(one for one in command.hosts if not _shared(state, one.hostname)))
    )


def put_all(state: State, settings: Settings, command: PutHosts) -> Generator[Fact, None, None]:
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
    yield from sum_capacity(state, settings)


def remove_hosts(state: State, settings: Settings, command: RemoveHosts) -> Generator[Fact, None, None]:
    """Remove hosts of a host manager. Shared hosts stay: only their engine removes them."""
    names = tuple(name for name in command.hostnames if not _shared(state, name))
    yield from remove_all(state, settings, RemoveHosts(names))


def _shared(state: State, hostname: str) -> bool:
    host = state.known_hosts.get(hostname)
    return host is not None and bool(host.shared_with)


def remove_all(state: State, settings: Settings, command: RemoveHosts) -> Generator[Fact, None, None]:
    known = tuple(name for name in dict.fromkeys(command.hostnames) if name in state.known_hosts)
    if known:
        yield HostsRemoved(known)
        yield from sum_capacity(state, settings)


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
    runs = state.runs_on(hostname)
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


def sum_capacity(state: State, settings: Settings) -> Generator[Fact, None, None]:
    """The capacity becomes the sum over hosts that do not drain; of shared hosts, at most the share of Peloton
    counts."""
    by_name: dict[str, list[Host]] = {}
    for host in state.known_hosts.values():
        if not host.draining:
            by_name.setdefault(host.shared_with, []).append(host)
    parts = [_capacity_of(state.shared.get(name), hosts) for name, hosts in by_name.items()]
    capacity, slack_cpu = total(one for one, _ in parts), sum(slack for _, slack in parts)
    yield from set_capacity(state, settings, SetCapacity(capacity, slack_cpu))


def _capacity_of(shared: SharedHosts | None, hosts: Sequence[Host]) -> tuple[Vector, float]:
    cpu, gpu, memory, disk = capacity = total(host.capacity for host in hosts)
    slack_cpu = sum(host.slack_cpu for host in hosts)
    if shared is None:
        return capacity, slack_cpu
    most = shared.capacity
    least = (min(cpu, most[0]), min(gpu, most[1]), min(memory, most[2]), min(disk, most[3]))
    return least, min(slack_cpu, shared.slack_cpu)


def rank_hosts(state: State, settings: Settings, command: RankHosts) -> Generator[Fact, None, None]:
    tasks = {
        hostname: [_host_task(run, state.now_ms) for run in state.runs_on(hostname)] for hostname in command.hostnames
    }
    ranked = tuple(order(command.hostnames, tasks))
    if ranked != state.ranked_hosts:
        yield HostsRanked(ranked)


def recover_runs(state: State, settings: Settings, command: RecoverRuns) -> Generator[Fact, None, None]:
    """Track the runs that a host manager reports. Passed over are known runs, runs of unknown pools, runs in states in
    which no host has a run, and runs of tasks that EnqueueGangs would refuse."""
    for one in command.runs:
        known = one.task.id in state.runs or one.task.mesos_id in state.task_of
        if not known and one.pool_id in state.pools and one.state in ON_HOST and not problem_of(one.task):
            yield RunRecovered(one.task, one.pool_id, one.state, one.started_ms)
            if at_ms := due_ms(state.now_ms, one.state, settings):  # PREEMPTING: the next cycle has to find it again
                yield TaskMoved(one.task.id, one.task.mesos_id, one.state, "recovered", at_ms)


def _host_task(run: Run, now_ms: int) -> HostTask:
    task = run.task
    run_time_s = (now_ms - run.started_ms) / 1_000 if run.started_ms else None
    return HostTask(run.pool_id, task.type, run.state, task.priority, task.preemptible, task.controller, run_time_s)


Refused = tuple[tuple[Reservation, str], ...]


def reserve_hosts(state: State, settings: Settings, command: ReserveHosts) -> Generator[Fact, None, Refused]:
    refused: list[tuple[Reservation, str]] = []
    for one in command.reservations:
        if why := _problem(state, one):
            refused.append((one, why))
        elif state.runs[one.task_id].reserved_host != one.hostname:
            yield HostReserved(one.hostname, one.task_id, one.run_id)
    return tuple(refused)


def _problem(state: State, one: Reservation) -> str:
    run, host = state.run_of(one.task_id, one.run_id), state.known_hosts.get(one.hostname)
    if run is None or run.state != RESERVED:
        return f"run {one.run_id[:100]!r} is {'not known' if run is None else run.state}, expected {RESERVED}"
    if host is None:
        return f"there is no host {one.hostname[:100]!r}"
    if host.draining:
        return f"{one.hostname} drains"
    if host.shared_with:
        return f"{one.hostname} is shared with {host.shared_with}, whose core reserves"
    if not covers(host.room, need(run.task)):
        return f"{one.hostname} never has enough {', '.join(lacking(host.room, need(run.task)))}"
    if state.reserved.get(one.hostname, run) is not run:
        return f"{one.hostname} is reserved for another task"
    most = max(1, len(state.known_hosts) * RESERVED_PERCENT // 100)
    if not run.reserved_host and len(state.reserved) >= most:
        return f"{most} of {len(state.known_hosts)} hosts are reserved already"
    return ""


def share_hosts(state: State, settings: Settings, command: ShareHosts) -> Generator[Fact, None, SharingAnswer]:
    engine = command.engine
    known = state.shared.get(engine.name)
    if why := _why_not(state, engine, command.takes_over):
        return SharingAnswer(why)
    placed = known.placed if known is not None and known.epoch == engine.epoch else 0
    shared = SharedHosts(engine.name, engine.epoch, command.capacity, command.slack_cpu, placed)
    if shared != known:
        yield HostsShared(shared)
    foreign = {host.hostname for host in command.hosts if _is_foreign(state, host.hostname, engine.name)}
    own = [replace(host, shared_with=engine.name) for host in command.hosts if host.hostname not in foreign]
    yield from put_all(state, settings, PutHosts(tuple(own)))
    removed = [name for name in command.removed if not _is_foreign(state, name, engine.name)]
    yield from remove_all(state, settings, RemoveHosts(tuple(removed)))
    if state.known_hosts or state.capacity is not None:  # pools can be made before the capacity is known
        yield from sum_capacity(state, settings)
    return SharingAnswer(foreign=tuple(sorted(foreign)))


def _why_not(state: State, engine: SharedEngine, takes_over: bool) -> str:
    """Two engines that begin at once have read the same epoch: only the first of them has the next one."""
    known = state.shared.get(engine.name)
    last, named = (known.epoch if known is not None else 0), f"engine {engine.epoch} of {engine.name}"
    if known is None and len(state.shared) >= SHARINGS:
        return f"hosts are shared with {SHARINGS} partitions already"
    if engine.epoch < last:
        return f"{named} was followed by {last}"
    if takes_over and engine.epoch == last:
        return f"{named} has begun already"
    return f"{named} has not begun" if not takes_over and engine.epoch > last else ""


def _is_foreign(state: State, hostname: str, name: str) -> bool:
    host = state.known_hosts.get(hostname)
    return host is not None and host.shared_with != name


def why_not_by(state: State, hostname: str, by: SharedEngine | None) -> str:
    """Why this engine does not place on the host; empty: it may, if there is room."""
    host = state.known_hosts.get(hostname)
    shared_with = host.shared_with if host is not None else ""
    if by is None:
        only = f"{hostname} is shared with {shared_with}: only the engine of that partition places there"
        return only if shared_with else ""
    if shared_with != by.name:
        return f"{hostname[:100]} is not shared with {by.name}"
    epoch = state.shared[by.name].epoch
    return "" if epoch == by.epoch else f"engine {by.epoch} of {by.name} was followed by {epoch}"


def is_newer(state: State, by: SharedEngine) -> bool:
    """Whether the request is of the engine that places now, and behind its earlier ones."""
    known = state.shared.get(by.name)
    return known is not None and known.epoch == by.epoch and by.number > known.placed


def preempt_runs(state: State, settings: Settings, command: PreemptRuns) -> Generator[Fact, None, None]:
    """Preempt the runs, also orphans on a host that is to be emptied."""
    runs = [state.run_of(*pair) or state.orphans.get(pair[1]) for pair in command.runs]
    reason = HOST_MAINTENANCE if command.maintenance else REVOKE_RESOURCES
    yield from evict(state, settings, (run for run in runs if run is not None), reason)
