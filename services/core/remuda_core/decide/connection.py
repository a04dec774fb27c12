"""RmConnection: the RM is silent, back, gone or deregistered (semantics section 14)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..commands import RmConnection
from ..facts import Fact
from ..rules import connection
from ..state import State
from .guests import has_guests


def rm_connection(state: State, command: RmConnection, now_ms: int) -> Iterator[Fact]:
    """Ignored for an RM that is not registered, or has registered again since."""
    if state.registered is None or command.registration not in (0, state.registration):
        return
    become = connection.TRANSITIONS.get((state.rm_state, command.state))
    if become == connection.PAUSED:
        yield facts.RmPaused(command.reason)
    elif become == connection.RUNNING:
        yield facts.RmResumed()
    elif become == connection.STOPPED:
        deregistered = command.state == connection.DEREGISTERED
        yield facts.RmStopped(command.reason, deregistered, deregistered and has_guests(state))
