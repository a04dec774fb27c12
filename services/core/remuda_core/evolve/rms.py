"""Facts of the RM as a whole: registration, liveness, time and configuration."""

from __future__ import annotations

from .. import facts, timeouts
from ..rules import connection
from ..settings import Timing
from ..state import State, Timers
from .guests import leave_guests
from .questions import declaration_changed


def rm_registered(state: State, fact: facts.RmRegistered) -> None:
    if fact.resync != connection.REPLAY:
        _forget_everything(state, fact.keeps_guests)
    was, state.registered = state.batch_predicates, fact
    state.registration = fact.registration
    state.begin_life(fact.life)
    state.rm_state = connection.RUNNING
    if state.batch_predicates != was:
        declaration_changed(state)


def _forget_everything(state: State, keeps_guests: bool) -> None:
    """Drop the partitions and the timers. IDs may be used again."""
    if keeps_guests:
        leave_guests(state)
    state.accounts.leave_all(state.now_ms)
    state.budgets.leave_all()
    state.partitions.clear()
    state.configuration = None
    state.timing = Timing()
    state.timers = Timers()
    for key, loan in state.loans.items():
        state.timers.put(timeouts.of_loan(key, loan))


def rm_paused(state: State, fact: facts.RmPaused) -> None:
    state.rm_state = connection.PAUSED


def rm_resumed(state: State, fact: facts.RmResumed) -> None:
    state.rm_state = connection.RUNNING


def rm_stopped(state: State, fact: facts.RmStopped) -> None:
    state.rm_state = connection.STOPPED
    if fact.deregistered:
        state.registered = None
        _forget_everything(state, fact.keeps_guests)


def time_passed(state: State, fact: facts.TimePassed) -> None:
    state.timers.take_out(fact.until_ms)


def configuration_applied(state: State, fact: facts.ConfigurationApplied) -> None:
    state.configuration = fact
    for partition in state.partitions.values():
        if partition.yunikorn_1_4 != (fact.compatibility == "yunikorn-1.4"):
            partition.yunikorn_1_4 = not partition.yunikorn_1_4
    if state.timing != fact.timing:
        was, state.timing = state.timing, fact.timing
        for partition in state.partitions.values():
            for application in partition.applications.values():
                state.timers.cancel(timeouts.of_state(partition.name, application, was))
                state.timers.put(timeouts.of_state(partition.name, application, fact.timing))
            for node in partition.nodes.values():
                state.timers.cancel(timeouts.of_reservation(partition.name, node, was))
                state.timers.put(timeouts.of_reservation(partition.name, node, fact.timing))
