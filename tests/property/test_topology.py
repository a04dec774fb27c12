"""Storms with racks and groups, against the oracle and all invariants."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from remuda_core.facts import DomainAvoidanceEnded, DomainAvoided, PartitionAdded, PartitionChanged
from remuda_core.settings import Configuration, PartitionSettings, TopologyLevel

from .storm import Storm, played
from .topology_storm import RACK, ZONE, TopologyStorm


@given(seed=st.integers(0, 10**6))
@example(seed=138)  # a core that goes on from a snapshot has to know the groups that wait before it asks for the oldest
@example(seed=401)  # so has one whose groups have changed since the last search
@example(seed=122)  # another application with the ID of one that has just ended
@example(seed=2148)  # a member has preempted on the node that it is bound to, before its group did
@example(seed=2181)  # a reason for which the index knew names of nodes that are gone
def test_a_storm(seed: int) -> None:
    played(TopologyStorm(seed), seed, 80)


class WithLevels(Storm):
    """A topology that no ask wants anything of."""

    def configuration(self) -> Configuration:
        self.last = replace(super().configuration(), compatibility="none")
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        return replace(super().settings(name), topology=self.levels())

    def levels(self) -> tuple[TopologyLevel, ...]:
        return (ZONE, RACK)


class WithoutLevels(WithLevels):
    def levels(self) -> tuple[TopologyLevel, ...]:
        return ()


@given(seed=st.integers(0, 10**6))
def test_levels_alone_change_nothing(seed: int) -> None:
    """Where no ask wants anything of the topology, all decisions are those of a partition without one."""
    logs = []
    for storm in (WithLevels(seed), WithoutLevels(seed)):
        for _ in storm.run(60):
            pass
        facts = [fact for _, each in storm.world.log for fact in each]
        logs.append([fact for fact in facts if not isinstance(fact, PartitionChanged | PartitionAdded)])
    assert logs[0] == logs[1]


def test_storms_have_domains_that_are_avoided() -> None:
    """Or the law of `avoidance_oracle` shows less than it seems."""
    world = played(TopologyStorm(6008), 6008, 80)
    happened = {type(fact) for _, facts in world.log for fact in facts}
    assert {DomainAvoided, DomainAvoidanceEnded} <= happened
