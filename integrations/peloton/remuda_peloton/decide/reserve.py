"""Reservations of hosts, for tasks that no attempt has placed: a reserved host takes no other task, so room grows
there."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import Reservation, ReserveHosts
from ..facts import Fact, HostReserved
from ..limits import RESERVED_PERCENT
from ..rules.hosts import covers, lacking, need
from ..rules.lifecycle import RESERVED
from ..settings import Settings
from ..state import State

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
