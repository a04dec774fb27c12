"""Bugs of what an RM of si.v1 and Peloton share, each put into the running code on purpose."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace

from remuda_core.decide import release
from remuda_core.evolve import allocations, booking
from remuda_core.state import Node
from remuda_peloton.decide import hosts, placements
from remuda_peloton.sharing import Difference, GuestAllocation, Held, Wish, difference
from remuda_peloton.shell import shared_engine
from remuda_peloton.shell.partition import Partition
from remuda_peloton.shell.shared_engine import SharedEngine
from remuda_peloton.wire import guests
from remuda_rmproxy.inbound import translate
from remuda_rmproxy.outbound import callbacks

from .mutants import Mutant


def uuids_alone_are_enough(patch: pytest.MonkeyPatch) -> None:
    """An RM that guesses the UUID of a guest releases its allocation."""
    patch.setattr(release, "is_guest", lambda _: False)


def keys_of_guests_are_free(patch: pytest.MonkeyPatch) -> None:
    """rmproxy does not look whose names a request has."""
    patch.setattr(translate, "_check_no_guest", lambda _: None)


def rms_hear_of_guests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(callbacks, "is_guest", lambda _: False)


def late_engines_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """An engine goes on whoever has followed it, and is believed."""
    patch.setattr(SharedEngine, "_check", lambda *_: None)
    patch.setattr(hosts, "_why_not", lambda *_: "")
    patch.setattr(placements, "why_not_by", lambda *_: "")


def allocations_of_ended_runs_stay(patch: pytest.MonkeyPatch) -> None:
    def greedy(wishes: Any, held: Held) -> Difference:
        return replace(difference(wishes, held), release=())

    patch.setattr(shared_engine, "difference", greedy)


def guests_ask_for_less(patch: pytest.MonkeyPatch) -> None:
    """The core keeps half of what a run uses."""
    ask_of = guests.ask_of

    def modest(wish: Wish, run: Any) -> Any:
        ask = ask_of(wish, run)
        ask.resourceAsk.resources["vcore"].value //= 2
        return ask

    patch.setattr(shared_engine, "ask_of", modest)


def waiting_asks_have_a_place(patch: pytest.MonkeyPatch) -> None:
    """The engine takes an ask that is bound to no node, and waits, for an allocation on the first node."""
    read = Partition._read

    async def hopeful(partition: Partition, log_seq: int) -> Any:
        view = await read(partition, log_seq)
        node = str(view.nodes[0]["id"]) if view.nodes else ""
        waiting = [one for one in view.held.asks if node and not one.node]
        made = [GuestAllocation("none", one.key, one.application, node) for one in waiting]
        return replace(view, held=replace(view.held, allocations=(*view.held.allocations, *made)))

    patch.setattr(Partition, "_read", hopeful)


def registrations_drop_guests(patch: pytest.MonkeyPatch) -> None:
    """The RM registers and reports what it has, and the room of guests is free."""
    for name in ("configure", "connection"):
        patch.setattr(import_module(f"remuda_core.decide.{name}"), "has_guests", lambda _: False)


def guests_return_with_their_node(patch: pytest.MonkeyPatch) -> None:
    """Until the RM reports a node, the part of the quota that guests have there is free."""
    book = booking.book_allocated

    def late(application: Any, node: Node, resource: Any, times: int, placeholder: bool = False) -> None:
        if node.reported:
            book(application, node, resource, times, placeholder)

    patch.setattr(allocations, "book_allocated", late)


SIDE_BY_SIDE_MUTANTS: tuple[Mutant, ...] = (
    uuids_alone_are_enough,
    keys_of_guests_are_free,
    rms_hear_of_guests,
    late_engines_are_not_fenced,
    allocations_of_ended_runs_stay,
    guests_ask_for_less,
    waiting_asks_have_a_place,
    registrations_drop_guests,
    guests_return_with_their_node,
)
