"""The resource manager, without a clock, a network or a thread.

core = Core(settings)
for commit in log:
    core.replay(commit.facts, commit.now_ms)
while leading:
    facts, answer = core.handle(command, now_ms)
    append the facts to the log; only then give the answer
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .commands import Command
from .decide import decide
from .evolve import evolve
from .facts import Fact
from .settings import DEFAULT, Settings
from .state import State


class Core:
    def __init__(self, settings: Settings = DEFAULT) -> None:
        self.state = State()
        self.settings = settings

    def handle(self, command: Command, now_ms: int, most_facts: int | None = None) -> tuple[list[Fact], Any]:
        """Decide the command and apply its facts. Returns the facts and the answer (`commands`). The host must make the
        facts durable before it gives the answer. `most_facts`: the command ends after so many facts, with the answer
        None; for commands that may end after any fact, and go on when they are handled again."""
        state, facts = self.state, []
        state.now_ms = max(now_ms, state.now_ms)
        decision = decide(state, self.settings, command)
        try:
            while True:
                fact = next(decision)
                evolve(state, fact)  # when decide resumes, it has happened
                facts.append(fact)
                if len(facts) == most_facts:
                    return facts, None
        except StopIteration as end:
            return facts, end.value

    def replay(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Apply the facts of a commit that was decided at `now_ms`."""
        self.state.now_ms = now_ms
        for fact in facts:
            evolve(self.state, fact)
