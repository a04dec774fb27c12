"""The scheduler of one resource manager, without a clock, a network or a thread.

The host's whole loop:

    core = Core(rm_id)
    for commit in log:                               # restart, standby, query, audit: the same
        core.replay(commit.facts, commit.now_ms, ...)
    while leading:
        commands = read the inbox after core.state.inbox_seq
        facts = [core.handle(command, now_ms) for command in commands] + core.handle(Schedule(limit), now_ms)
        append Commit(parent, inbox_seq, now_ms, epoch, facts) to the log; if that fails, die and start from the log
"""

from __future__ import annotations

from collections.abc import Iterable

from .commands import Command
from .decide import decide
from .evolve import BY_FACT
from .facts import Fact
from .state import State


class Core:
    def __init__(self, rm_id: str) -> None:
        self.state = State(rm_id)

    def handle(self, command: Command, now_ms: int) -> list[Fact]:
        """Decide the command; the state is changed when this returns. The facts have to be made durable before anybody
        hears of them."""
        return self.handle_all((command,), now_ms)

    def handle_all(self, commands: Iterable[Command], now_ms: int) -> list[Fact]:
        """One after the other, at the same time."""
        state = self.state
        state.now_ms = now_ms = max(now_ms, state.now_ms)
        facts: list[Fact] = []
        for command in commands:
            for fact in decide(state, command, now_ms):
                BY_FACT[type(fact)](state, fact)  # evolve: when decide resumes, it has happened
                facts.append(fact)
        return facts

    def replay(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Follow what a leader decided."""
        state = self.state
        state.now_ms = now_ms
        for fact in facts:
            BY_FACT[type(fact)](state, fact)  # evolve
