"""What an engine of shared hosts has to do: the difference between what runs want and what the RM's partition holds.

A function of what two logs say, so it does not matter which process computes it, or how often: when nothing is
different, nothing is to be done. An engine that was killed leaves a difference, and the next one levels it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


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
    """`releasing`: the core has asked for its release."""

    uuid: str
    key: str
    application: str
    node: str
    releasing: bool = False


class Held(msgspec.Struct, frozen=True):
    """All that the partition holds of a cluster. `alive`: applications that take asks."""

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
    """`wishes`: at most one of each key."""
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
