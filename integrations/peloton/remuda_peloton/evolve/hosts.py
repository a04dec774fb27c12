"""Facts about hosts."""

from __future__ import annotations

import msgspec

from .. import facts
from ..state import State
from .runs import end_reservation


def hosts_put(state: State, fact: facts.HostsPut) -> None:
    for host in fact.hosts:
        state.known_hosts[host.hostname] = host
        state.host_changed(host.hostname)


def hosts_removed(state: State, fact: facts.HostsRemoved) -> None:
    for hostname in fact.hostnames:
        if (run := state.reserved.get(hostname)) is not None:
            end_reservation(state, run)
        del state.known_hosts[hostname], state.host_changes[hostname]


def hosts_shared(state: State, fact: facts.HostsShared) -> None:
    state.shared[fact.shared.name] = fact.shared


def shared_placed(state: State, fact: facts.SharedPlaced) -> None:
    state.shared[fact.name] = msgspec.structs.replace(state.shared[fact.name], placed=fact.number)


def host_reserved(state: State, fact: facts.HostReserved) -> None:
    run = state.runs[fact.task_id]
    end_reservation(state, run)
    run.reserved_host = fact.hostname
    state.reserved[fact.hostname] = run
    state.host_changed(fact.hostname)
    run.reason = f"{fact.hostname} is reserved for it"
