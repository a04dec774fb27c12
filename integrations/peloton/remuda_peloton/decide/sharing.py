"""Hosts that are nodes of a resource manager of si.v1, too (docs/adr/shared-hosts.md).

One engine describes them, and places there what the core of that resource manager has allocated. Its epoch fences: what
an engine sends that was followed by another one has no effect.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec.structs import replace

from ..commands import (
    HOST_MAINTENANCE,
    REVOKE_RESOURCES,
    PreemptRuns,
    PutHosts,
    RemoveHosts,
    SharedEngine,
    ShareHosts,
    SharingAnswer,
)
from ..facts import Fact, HostsShared
from ..limits import SHARINGS
from ..rules.hosts import SharedHosts
from ..settings import Settings
from ..state import State
from .hosts import put_all, remove_all, sum_capacity
from .preemption import evict


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
    """Also orphans on a host that is to be emptied."""
    runs = [state.run_of(*pair) or state.orphans.get(pair[1]) for pair in command.runs]
    reason = HOST_MAINTENANCE if command.maintenance else REVOKE_RESOURCES
    yield from evict(state, settings, (run for run in runs if run is not None), reason)
