"""`decide` judges and never writes: what it changes is what its facts say, and these are written by `evolve`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_core.check.sizes import Containers, fields, known
from remuda_core.commands import Command, ReleaseAsk
from remuda_core.core import Core
from remuda_core.decide import decide
from remuda_core.evolve import evolve
from remuda_core.evolve.booking import prepare_release
from remuda_core.facts import Fact
from remuda_core.state import State
from tests.property.storm import Storm, apply
from tests.property.world import RM, World

# id(object) -> (the object, kept so that its ID is not used again; its fields or entries)
Objects = dict[int, tuple[Any, tuple[Any, ...]]]


def objects(state: State) -> Objects:
    """Each object and container that is reachable from the state, by identity, with what it holds now. Equal as long as
    nothing is written, not even into a lookup."""
    found: Objects = {}
    todo: list[Any] = [state]
    while todo:
        thing = todo.pop()
        if id(thing) in found:
            continue
        if isinstance(thing, dict):
            parts = [part for item in thing.items() for part in item]
        elif isinstance(thing, Containers):
            parts = list(thing)
        else:
            parts = [getattr(thing, name, None) for name, _ in fields(thing)]
        todo += [part for part in parts if isinstance(part, Containers) or is_known(part)]
        found[id(thing)] = thing, tuple(parts)
    return found


def is_known(thing: Any) -> bool:
    kind: Any = type(thing)
    return known(kind)


class Watched(Core):
    """A core that looks at its state before and after every step of `decide`."""

    def handle_in_steps(self, commands: Iterable[Command], now_ms: int, facts: list[Fact]) -> Iterator[None]:
        self.state.now_ms = now_ms = max(now_ms, self.state.now_ms)
        for command in commands:
            if isinstance(command, ReleaseAsk):
                prepare_release(self.state, command)
            before = objects(self.state)
            for fact in decide(self.state, self.index, command, now_ms):
                assert objects(self.state) == before, f"{command} has changed the state before {fact} was written"
                self.index.apply(self.state, fact, evolve(self.state, fact))
                facts.append(fact)
                before = objects(self.state)
            assert objects(self.state) == before, f"{command} has changed the state without a fact"
            yield


@settings(max_examples=settings().max_examples // 2)  # they take half a second each
@given(seed=st.integers(0, 10**6))
def test_deciding_writes_nothing(seed: int) -> None:
    day, watched = Storm(seed), World(check_always=False)
    watched.core = Watched(RM)
    for number, command in enumerate(list(day.run(60))):
        apply(watched, command)
        assert watched.log[number] == day.world.log[number]
