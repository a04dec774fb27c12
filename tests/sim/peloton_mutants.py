"""Bugs of Peloton's resource manager, each put into the running code on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_peloton import evolve, facts
from remuda_peloton.decide import admission, placements, updates
from remuda_peloton.rules.task import traits
from remuda_peloton.shell.machine import ResmgrMachine
from remuda_peloton.state import State
from remuda_peloton.wire import snapshots

from .mutants import Mutant


def followers_forget_the_inbox(patch: pytest.MonkeyPatch) -> None:
    """A process that takes over does not know what was handled meanwhile."""
    apply = ResmgrMachine.apply

    def forgetful(machine: ResmgrMachine, commit: Any) -> int:
        inbox_seq = machine.inbox_seq
        facts = apply(machine, commit)
        machine.inbox_seq = inbox_seq
        return facts

    patch.setattr(ResmgrMachine, "apply", forgetful)


def gangs_weigh_as_much_as_their_first_task(patch: pytest.MonkeyPatch) -> None:
    """Admission looks at one task of a gang."""
    patch.setattr(admission, "traits", lambda tasks: traits(tasks[:1]))


def engines_are_believed(patch: pytest.MonkeyPatch) -> None:
    """SetPlacements does not look whether a host has room."""
    patch.setattr(placements, "why_no_room", lambda *_: "")


def a_placement_is_of_the_task(patch: pytest.MonkeyPatch) -> None:
    """SetPlacements does not look in which state the run is."""

    def may_be_placed(state: State, pair: tuple[str, str]) -> bool:
        return pair[0] in state.runs

    patch.setattr(placements, "_may_be_placed", may_be_placed)


def ports_are_lost_on_restart(patch: pytest.MonkeyPatch) -> None:
    """A snapshot brings back everything but the ports of runs."""
    restore = snapshots._RESTORERS["run"]

    def without_ports(state: State, record: Any) -> None:
        record.ClearField("ports")
        restore(state, record)

    patch.setitem(snapshots._RESTORERS, "run", without_ports)


def orphans_keep_what_they_hold(patch: pytest.MonkeyPatch) -> None:
    """The allocation of a run that was replaced is not returned when it ends."""
    by_fact: dict[Any, Any] = evolve.BY_FACT
    run_ended = evolve.run_ended

    def leak(state: State, fact: facts.RunEnded) -> None:
        orphan = state.orphans.get(fact.run_id)
        if orphan is not None:
            orphan.state = "PENDING"  # which holds nothing
        run_ended(state, fact)

    patch.setitem(by_fact, facts.RunEnded, leak)


def placing_never_times_out(patch: pytest.MonkeyPatch) -> None:
    """What an engine has taken that was killed stays with it."""
    patch.setattr(placements, "due_ms", lambda *_: 0)


def reports_end_nothing(patch: pytest.MonkeyPatch) -> None:
    """What its host has lost without a word stays, with what it holds."""
    patch.setattr(updates, "_before_ms", lambda *_: 0)


PELOTON_MUTANTS: tuple[Mutant, ...] = (
    followers_forget_the_inbox,
    gangs_weigh_as_much_as_their_first_task,
    engines_are_believed,
    a_placement_is_of_the_task,
    ports_are_lost_on_restart,
    orphans_keep_what_they_hold,
    placing_never_times_out,
    reports_end_nothing,
)
