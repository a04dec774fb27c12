"""`decide` judges and never writes: what it changes is what its facts say, and these are written by `evolve`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from remuda_core.check import digest
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.decide import decide
from remuda_core.evolve import evolve
from remuda_core.facts import Fact

from .storm import Storm, apply
from .world import RM, World


class Watched(Core):
    """A core that looks at its state before and after every step of `decide`."""

    def handle_in_steps(self, commands: Iterable[Command], now_ms: int, facts: list[Fact]) -> Iterator[None]:
        self.state.now_ms = now_ms = max(now_ms, self.state.now_ms)
        for command in commands:
            before = digest(self.state)
            for fact in decide(self.state, self.index, command, now_ms):
                assert digest(self.state) == before, f"{command} has changed the state before {fact} was written"
                self.index.apply(self.state, fact, evolve(self.state, fact))
                facts.append(fact)
                before = digest(self.state)
            assert digest(self.state) == before, f"{command} has changed the state without a fact"
            yield


@given(seed=st.integers(0, 10**6))
def test_deciding_writes_nothing(seed: int) -> None:
    day, watched = Storm(seed), World(check_always=False)
    watched.core = Watched(RM)
    for number, command in enumerate(list(day.run(60))):
        apply(watched, command)
        assert watched.log[number] == day.world.log[number]
