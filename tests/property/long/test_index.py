"""The scheduling index says nothing that the state does not: thrown away and built anew at any time, it answers the
same, and the same commands lead to the same facts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from remuda_core.commands import Command
from remuda_core.facts import Fact
from remuda_core.index.build import build
from remuda_core.index.partition import PartitionIndex
from remuda_core.state import PendingAsk
from tests.property.storm import Storm, apply
from tests.property.world import World, decisions, lines


class Forgetful(World):
    """A world that throws its index away whenever it likes."""

    def __init__(self, seed: int) -> None:
        super().__init__(check_always=False)
        self._chance = Random(seed)
        self._often = self._chance.choice((0.02, 0.2, 1.0))

    def _handle(self, command: Command) -> list[Fact]:
        if self._chance.random() < self._often:
            self.core.index.forget()
        return super()._handle(command)


@given(seed=st.integers(0, 10**6))
def test_the_same_commands_lead_to_the_same_facts_with_an_index_built_anew(seed: int) -> None:
    day, forgetful = Storm(seed), Forgetful(seed)
    for number, command in enumerate(list(day.run(80))):
        apply(forgetful, command)
        (_, kept), (_, anew) = day.world.log[number], forgetful.log[number]
        assert decisions(kept) == decisions(anew), f"kept:\n{lines(kept)}\nbuilt anew:\n{lines(anew)}"


@given(seed=st.integers(0, 10**6))
def test_an_index_built_anew_answers_the_same(seed: int) -> None:
    day = Storm(seed)
    for number, _ in enumerate(day.run(80)):
        if number % 5:
            continue
        state, index = day.world.state, day.world.core.index
        for partition in state.partitions.values():
            kept = index.find(partition)
            if kept is not None:
                kept.measure()
                assert list(answers(kept)) == list(answers(build(partition, state.timing)))


def answers(index: PartitionIndex) -> Iterator[object]:
    for ask in pending(index):
        demand, node = index.find_demand(ask), index.best_node(ask)
        wants = (demand.items, demand.required_node, demand.refused) if demand is not None else None
        ask_rank = index.ask_rank(ask)[1:]  # root is compared with nothing
        yield ask.seq, ask_rank, index.awaits_place(ask), wants, node.id if node is not None else None


def pending(index: PartitionIndex) -> Iterator[PendingAsk]:
    for application in index.partition.applications.values():
        yield from application.asks.values()
