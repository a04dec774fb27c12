"""What an engine of shared hosts knows of Peloton's hosts, runs and pools, kept up to date by what has changed.

Knows nothing of RPCs: answers of ListShared are given to it as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..rules.hosts import Host
from ..rules.lifecycle import PLACING, RESERVED, UNPLACED
from .compare import Wish


class Outdated(Exception):
    """The answer cannot be added: it is older than what is known, or hosts were removed. All has to be listed."""


class Listing:
    """`shared`: of the last answer. `hosts`: by name; `pools`: by ID. `placed`: runs that are on these hosts, and
    `wishes`: theirs, both by ID. `taken`: runs that an engine has, by ID. `changes`: grows with each answer that has
    changed something."""

    def __init__(self, read_host: Callable[[Any], Host], wish: Callable[[Any], Wish]) -> None:
        self._read_host, self._wish = read_host, wish
        self._by_host: dict[str, list[Any]] = {}
        self.since_ms = self.changes = 0
        self.shared: Any = None
        self.hosts: dict[str, Host] = {}
        self.pools: Mapping[str, Any] = {}
        self.placed: dict[str, Any] = {}
        self.wishes: dict[str, Wish] = {}
        self.taken: dict[str, Any] = {}

    @property
    def runs(self) -> dict[str, Any]:
        """All of them, by ID."""
        return {**self.placed, **self.taken}

    @property
    def used_hosts(self) -> set[str]:
        return {name for name, runs in self._by_host.items() if runs}

    def add(self, answer: Any, is_all: bool) -> None:
        """`is_all`: what it does not list is not there. Raises Outdated."""
        if is_all:
            self._clear()
        listed = {host.hostname: self._read_host(host) for host in answer.hosts}
        if not is_all and (answer.now_ms < self.since_ms or self._count_with(listed) != answer.count):
            raise Outdated
        by_host: dict[str, list[Any]] = {name: [] for name in listed}
        taken: dict[str, Any] = {}
        for run in answer.runs:
            if run.state in (PLACING, RESERVED):
                taken[run.run_id] = run
            elif run.hostname in by_host:
                by_host[run.hostname].append(run)
        same = {
            name for name, runs in by_host.items()
            if self.hosts.get(name) == listed[name] and self._by_host.get(name) == runs
        }  # fmt: skip
        self.hosts.update(listed)
        self._put({name: runs for name, runs in by_host.items() if name not in same})
        if is_all or len(same) < len(listed) or answer.has_pools or taken != self.taken or answer.shared != self.shared:
            self.changes += 1
        if is_all or answer.has_pools:
            self.pools = {pool.pool_id: pool for pool in answer.pools}
        self.since_ms, self.shared, self.taken = answer.now_ms, answer.shared, taken

    def _count_with(self, listed: Mapping[str, Host]) -> int:
        return len(self.hosts) + sum(name not in self.hosts for name in listed)

    def _put(self, by_host: Mapping[str, list[Any]]) -> None:
        """Runs of a host may have come from another one of these: all leave first."""
        for name in by_host:
            for run in self._by_host.get(name, ()):
                self.placed.pop(run.run_id, None)
                self.wishes.pop(run.run_id, None)
        for name, runs in by_host.items():
            self._by_host[name] = runs
            for run in runs:
                if run.state not in UNPLACED:
                    self.placed[run.run_id] = run
                    self.wishes[run.run_id] = self._wish(run)

    def _clear(self) -> None:
        self.hosts.clear()
        self._by_host.clear()
        self.placed.clear()
        self.wishes.clear()
