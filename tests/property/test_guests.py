"""Guests outlive every registration and deregistration of the RM, in storms of commands."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

import pytest

from remuda_core.commands import Command, Register
from remuda_core.facts import GuestKept, RmRegistered, RmStopped
from remuda_core.state import State
from remuda_proto.guests import is_guest

from .storm import Storm
from .world import RM

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEEDS = range(2_000) if LONG else range(24)
Places = dict[str, tuple[str, str, dict[str, int], int]]


def held_by_guests(state: State) -> Places:
    """By UUID: the application, the node, what it holds there, and the release that the core has asked for."""
    found: Places = {}
    for partition in state.partitions.values():
        for uuid, one in partition.allocations.items():
            if is_guest(one.application.id):
                found[uuid] = (one.application.id, one.node.id, dict(one.fact.resource), one.releasing)
    for guests in state.left_guests.values():
        for left in guests.values():
            for uuid, fact in left.allocations.items():
                asked = left.releases[uuid].termination_type if uuid in left.releases else 0
                found[uuid] = (fact.application_id, fact.node_id, dict(fact.resource), asked)
    return found


class Crowd(Storm):
    """Most applications are guests, and the RM often registers again, in either way, or deregisters. `survived`: how
    many allocations of guests were there then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.guests, self.silent, self.gangs = 6, 0.02, False
        self.wild, self.nodes, self.room = 0.04, min(self.nodes, 6), 3
        self.survived = 0

    def seldom(self) -> Command:
        kind = self.random.random()
        if kind < 0.6:  # nodes that it had come back, sooner or later
            return Register(RM, self.last or self.configuration(), extra_config={**self.declared, "resync": "report"})
        return self.connection() if kind < 0.8 else super().seldom()

    def handle(self, command: Command) -> Iterator[Command]:
        before, nodes = held_by_guests(self.world.state), self.node_ids()
        count = len(self.world.log)
        yield from super().handle(command)
        facts = [fact for _, some in self.world.log[count:] for fact in some]
        if any(isinstance(fact, RmRegistered) or (isinstance(fact, RmStopped) and fact.deregistered) for fact in facts):
            assert held_by_guests(self.world.state) == before, command
            self.survived += len(before)
            booked = [fact.allocation.uuid for fact in facts if isinstance(fact, GuestKept)]
            assert len(set(booked)) == len(booked) and set(booked) <= before.keys()
        for node_id in sorted(nodes - self.node_ids()):
            if self.random.random() < 0.8 and self.world.state.registered is not None:
                yield from super().handle(self.node(node_id))

    def node_ids(self) -> set[str]:
        return {node_id for partition in self.world.state.partitions.values() for node_id in partition.nodes}


@pytest.mark.parametrize("first", range(0, len(SEEDS), 8))
def test_guests_outlive_registrations(first: int) -> None:
    survived = 0
    for seed in SEEDS[first : first + 8]:
        crowd = Crowd(seed)
        deque(crowd.run(250), maxlen=0)
        crowd.world.finish()
        survived += crowd.survived
    assert survived > 20  # or nothing was shown
