"""Facts about hosts."""

from __future__ import annotations

from .. import facts
from ..state import State


def hosts_put(state: State, fact: facts.HostsPut) -> None:
    for host in fact.hosts:
        state.known_hosts[host.hostname] = host
        state.host_changed(host.hostname)


def hosts_removed(state: State, fact: facts.HostsRemoved) -> None:
    for hostname in fact.hostnames:
        del state.known_hosts[hostname], state.host_changes[hostname]
