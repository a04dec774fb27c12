"""Peloton's tasks as guests in a partition of a resource manager (RM) of si.v1 (docs/adr/shared-hosts.md). Pure.

`difference` compares the wishes of runs with what the RM's partition holds, and says what an engine of shared hosts has
to do. It is a function of two logs, so it does not matter which process computes it, or how often: equal sides need
nothing. An engine that was killed leaves a difference, and the next engine levels it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from .rules.hosts import Host
from .rules.lifecycle import PLACING, RESERVED, UNPLACED


class Wish(msgspec.Struct, frozen=True):
    """A run that needs an allocation. `hostname`: where it is; empty: it is to be placed."""

    key: str
    application: str
    hostname: str = ""


class GuestAsk(msgspec.Struct, frozen=True):
    """A pending ask. `node`: the one to which it is bound; empty: none."""

    key: str
    application: str
    node: str = ""


class GuestAllocation(msgspec.Struct, frozen=True):
    """An allocation of a guest. `releasing`: the core has asked for its release."""

    uuid: str
    key: str
    application: str
    node: str
    releasing: bool = False


class Held(msgspec.Struct, frozen=True):
    """The asks and allocations of a cluster in the partition. `alive`: applications that take asks."""

    alive: frozenset[str]
    asks: tuple[GuestAsk, ...]
    allocations: tuple[GuestAllocation, ...]


class Difference(msgspec.Struct, frozen=True):
    """`submit`: applications. `ask`: wishes without a place. `withdraw`: asks without a wish. `release`: allocations
    without one, and those whose end the core has asked for, once their run is off the host. `preempt`: keys of runs
    that the core wants to end. `unbacked`: keys of runs that are on a host without an allocation. `nodes`: of wishes
    that are to be placed, where the core has allocated them."""

    submit: tuple[str, ...] = ()
    ask: tuple[Wish, ...] = ()
    withdraw: tuple[GuestAsk, ...] = ()
    release: tuple[GuestAllocation, ...] = ()
    preempt: tuple[str, ...] = ()
    unbacked: tuple[str, ...] = ()
    nodes: Mapping[str, str] = {}

    @property
    def is_level(self) -> bool:
        """Nothing has to be sent to the RM."""
        return not (self.submit or self.ask or self.withdraw or self.release)


def difference(wishes: Sequence[Wish], held: Held) -> Difference:
    """The difference between the wishes of runs and the asks and allocations of the partition. `wishes`: at most one of
    each key."""
    wanted = {wish.key: wish for wish in wishes}
    used, release, preempt = _sort_allocations(wanted, held)
    kept, withdraw = _sort_asks(wanted, used, held)
    ask = tuple(wish for wish in wishes if wish.key not in used and wish.key not in kept)
    return Difference(
        submit=tuple(dict.fromkeys(wish.application for wish in ask if wish.application not in held.alive)),
        ask=ask,
        withdraw=tuple(withdraw),
        release=tuple(release),
        preempt=tuple(preempt),
        unbacked=tuple(wish.key for wish in wishes if wish.hostname and wish.key not in used),
        nodes={key: one.node for key, one in used.items() if not wanted[key].hostname},
    )


def _sort_allocations(
    wanted: Mapping[str, Wish], held: Held
) -> tuple[dict[str, GuestAllocation], list[GuestAllocation], list[str]]:
    """The allocation of each wish; those to release; the keys of runs to preempt."""
    used: dict[str, GuestAllocation] = {}
    release: list[GuestAllocation] = []
    preempt: list[str] = []
    for one in held.allocations:
        wish = wanted.get(one.key)
        fits = wish is not None and wish.application == one.application and wish.hostname in ("", one.node)
        if not fits or one.key in used or (one.releasing and not wanted[one.key].hostname):
            release.append(one)
            continue
        used[one.key] = one
        if one.releasing:
            preempt.append(one.key)
    return used, release, preempt


def _sort_asks(
    wanted: Mapping[str, Wish], used: Mapping[str, GuestAllocation], held: Held
) -> tuple[set[str], list[GuestAsk]]:
    """The keys of asks that a wish still needs; those to withdraw. An ask cannot be bound to another node later."""
    kept: set[str] = set()
    withdraw: list[GuestAsk] = []
    for one in held.asks:
        wish = wanted.get(one.key)
        if (
            wish is None
            or one.key in used
            or one.key in kept
            or (wish.application, wish.hostname) != (one.application, one.node)
        ):
            withdraw.append(one)
        else:
            kept.add(one.key)
    return kept, withdraw


class Outdated(Exception):
    """The answer cannot be added: it is older than what is known, or hosts were removed. All has to be listed."""


class Listing:
    """The shared hosts, runs and pools that an engine knows, kept up to date by answers of ListShared. `shared`: the
    SharedHosts of the last answer. `hosts`: by name; `pools`: by ID. `placed`: the runs on the hosts, and `wishes`: the
    wishes of these runs, both by the ID of the run. `taken`: runs that an engine has, by ID. `changes`: grows with each
    answer that has changed something."""

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
        """The placed and the taken runs, by ID."""
        return {**self.placed, **self.taken}

    @property
    def used_hosts(self) -> set[str]:
        return {name for name, runs in self._by_host.items() if runs}

    def add(self, answer: Any, is_all: bool) -> None:
        """Add an answer of ListShared. `is_all`: hosts and runs that the answer does not list do not exist. Raises
        Outdated."""
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
