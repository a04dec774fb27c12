"""The next ask for a freed node is the one that would be next if all fitting demands were opened: of two equal cores,
one searches freed nodes, the other opens whatever fits."""

from __future__ import annotations

from random import Random

import pytest

from remuda_core import commands
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Ask, AskOutstanding, AskWaiting, Fact
from remuda_core.index import demands
from remuda_core.limits import ALLOCATIONS_PER_PASS, DEMAND_BITS, FREED_NODES, LEVELS_KEPT
from remuda_core.settings import Configuration, Limit, PartitionSettings, QueueSettings

PARTITION = "[rm]default"
LEAVES = ("root.fifo", "root.fair", "root.p.full", "root.p.limited", "root.p.stateaware")


def leaf(name: str, policy: str = "fifo", limits: tuple[Limit, ...] = (), **maximum: int) -> QueueSettings:
    return QueueSettings(name, properties={"application.sort.policy": policy}, max=maximum, limits=limits)


def configuration() -> Configuration:
    limit = Limit(users=("*",), max_resources={"vcore": 12})
    below = (leaf("full", vcore=9), leaf("limited", limits=(limit,)), leaf("stateaware", "stateaware"))
    queues = (leaf("fifo"), leaf("fair", "fair"), QueueSettings("p", parent=True, max={"memory": 60}, queues=below))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    return Configuration("", (PartitionSettings("default", root),))


class Day:
    """A run, as commands; everything is drawn from the core's facts."""

    def __init__(self, seed: int) -> None:
        self.random, self.core, self.now_ms, self.made = Random(seed), Core("rm"), 0, 0

    def begin(self) -> list[commands.Command]:
        nodes = range(self.random.randint(2, 6))
        capacity = {"vcore": 10, "memory": 10}
        return [
            commands.Register("rm", configuration()),
            *(commands.UpdateNode(PARTITION, f"n{i}", "CREATE", capacity=capacity) for i in nodes),
            *(
                commands.SubmitApplication(PARTITION, f"{queue}-{i}", queue, self.random.choice(("alice", "bob")))
                for queue in LEAVES
                for i in range(self.random.randint(1, 3))
            ),
        ]

    def step(self) -> list[commands.Command]:
        random = self.random
        partition = self.core.state.partitions[PARTITION]
        applications = [a for a in partition.applications.values() if not a.terminal]
        what = random.random()
        if what < 0.5 and applications:
            return [self.ask(random.choice(applications).id) for _ in range(random.randint(1, 4))]
        if what < 0.9 and partition.allocations:
            uuids = random.sample(sorted(partition.allocations), min(len(partition.allocations), random.randint(1, 3)))
            gone = [partition.allocations[uuid].fact for uuid in uuids]
            return [commands.ReleaseAllocation(PARTITION, a.application_id, a.uuid, STOPPED_BY_RM, "") for a in gone]
        if what < 0.95:
            action = random.choice(("DRAIN_NODE", "DRAIN_TO_SCHEDULABLE"))
            return [commands.UpdateNode(PARTITION, random.choice(sorted(partition.nodes)), action)]
        self.now_ms += random.choice((100, 1_000, 3_000))
        return [commands.Tick()]

    def ask(self, application_id: str) -> commands.Command:
        random = self.random
        self.made += 1
        need = {"vcore": random.randint(1, 6), "memory": random.randint(1, 6)}
        priority = random.choice((0, 0, 0, 1, 5))
        return commands.SubmitAsk(
            Ask(PARTITION, application_id, f"ask-{self.made}", need, random.choice((1, 1, 3)), priority)
        )


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_gaps_are_filled_as_if_all_that_fits_were_open(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 6):
        day, other = Day(seed), Core("rm")
        told = day.begin()
        for step in range(120):
            told.append(commands.Schedule(ALLOCATIONS_PER_PASS if seed % 3 else 1))
            monkeypatch.setattr(demands, "FREED_NODES", FREED_NODES)
            if seed % 2:  # so few that demands share them
                monkeypatch.setattr(demands, "DEMAND_BITS", 4)
                monkeypatch.setattr(demands, "LEVELS_KEPT", 2)
            searched = done(day.core.handle_all(told, day.now_ms))
            check(day.core.state, day.core.index)
            monkeypatch.setattr(demands, "FREED_NODES", 0)
            monkeypatch.setattr(demands, "DEMAND_BITS", DEMAND_BITS)
            monkeypatch.setattr(demands, "LEVELS_KEPT", LEVELS_KEPT)
            assert searched == done(other.handle_all(told, day.now_ms)), f"seed {seed}, step {step}"
            told = day.step()


def done(facts: list[Fact]) -> list[Fact]:
    """Without what is only told: nodes are not looked through for a demand that is open."""
    return [fact for fact in facts if not isinstance(fact, AskOutstanding | AskWaiting)]
