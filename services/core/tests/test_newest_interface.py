"""Requests of RMs that speak the interface of YuniKorn 1.5 to 1.9: allocations that are asks, run on with another size,
or are foreign; releases by key."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_core import commands, facts
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.wire.commands import read_allocation_request
from remuda_proto.si.v1 import si_pb2 as si

PARTITION = "[rm-1]default"
NOW_MS = 1_000


class World:
    def __init__(self, compatibility: str = "none") -> None:
        self.core = Core("rm-1")
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        self.do(commands.Register("rm-1", Configuration("1", (PartitionSettings("default", root),), compatibility)))
        self.do(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10}))
        self.do(commands.SubmitApplication(PARTITION, "app", "root.a", "alice"))

    def do(self, command: commands.Command) -> list[facts.Fact]:
        found = self.core.handle(command, NOW_MS)
        check(self.core.state, self.core.index)
        return found

    def send(self, *allocations: si.Allocation, releases: tuple[si.AllocationRelease, ...] = ()) -> list[facts.Fact]:
        request = si.AllocationRequest(allocations=allocations)
        request.releases.allocationsToRelease.extend(releases)
        return [fact for command in read_allocation_request(request) for fact in self.do(command)]

    def cycle(self) -> list[facts.Fact]:
        return self.do(commands.Schedule(100))

    @property
    def partition(self) -> Any:
        return self.core.state.partitions[PARTITION]

    def running(self) -> dict[str, int]:
        return {one.fact.allocation_key: one.fact.resource["vcore"] for one in self.partition.allocations.values()}


def allocation(key: str, vcore: int, node: str = "", application: str = "app", **fields: Any) -> si.Allocation:
    resource = si.Resource(resources={"vcore": si.Quantity(value=vcore)})
    return si.Allocation(
        partitionName=PARTITION, applicationID=application, allocationKey=key, resourcePerAlloc=resource, nodeID=node,
        **fields,
    )  # fmt: skip


def release(key: str, application: str = "app", **fields: Any) -> si.AllocationRelease:
    return si.AllocationRelease(
        partitionName=PARTITION, applicationID=application, allocationKey=key, terminationType=si.STOPPED_BY_RM,
        **fields,
    )  # fmt: skip


def test_an_allocation_without_a_node_is_an_ask() -> None:
    world = World()
    policy = si.PreemptionPolicy(allowPreemptSelf=True)
    world.send(allocation("k", 2, priority=7, originator=True, preemptionPolicy=policy, allocationTags={"a": "b"}))
    ask = world.partition.applications["app"].asks["k"].ask
    assert (ask.priority, ask.originator, ask.allow_preempt_self, ask.tags) == (7, True, True, {"a": "b"})
    assert [fact for fact in world.cycle() if isinstance(fact, facts.Allocated)]
    assert world.running() == {"k": 2}


def test_its_refusal_is_that_of_an_allocation() -> None:
    (refused,) = World().send(allocation("k", 2, application="unknown"))
    assert isinstance(refused, facts.AllocationRejected)
    assert refused.reason == "application 'unknown' does not exist"


def test_releases_by_key() -> None:
    world = World()
    world.send(allocation("k", 2), allocation("other", 1))
    world.cycle()
    world.send(allocation("waits", 90))
    released = world.send(releases=(release("k"), release("waits")))
    assert [type(fact).__name__ for fact in released][0] == "AllocationReleased"
    assert world.running() == {"other": 1}
    assert not world.partition.applications["app"].asks, "what was not placed is not asked for any more"


def test_an_allocation_without_uuid_runs_under_its_key() -> None:
    world = World()
    world.send(allocation("k", 2, node="n1"))
    assert list(world.partition.allocations) == ["k"]
    assert world.send(releases=(release("k"),)) and not world.running()


def test_ids_of_1_5() -> None:
    world = World()
    world.send(allocation("k", 2, node="n1", allocationID="k-0"))
    assert list(world.partition.allocations) == ["k-0"]
    world.send(releases=(release("k", allocationID="k-0"),))
    assert not world.running()


def test_an_allocation_runs_on_with_another_size() -> None:
    world = World()
    world.send(allocation("k", 2))
    world.cycle()
    state = world.partition.applications["app"].state
    world.send(allocation("k", 12, node="n1"))
    assert world.running() == {"k": 12}
    assert dict(world.partition.root.allocated) == {"vcore": 12}
    assert world.partition.applications["app"].state == state
    assert len(world.send(allocation("k", 12, node="n1"))) == 1, "the same size again is refused as known"
    (refused,) = world.send(allocation("k", 0, node="n1"))
    assert isinstance(refused, facts.AllocationRejected) and world.running() == {"k": 12}


def test_a_foreign_allocation_occupies_its_node() -> None:
    world = World()
    node = world.partition.nodes["n1"]
    for vcore in (3, 4):
        world.send(allocation("pod", vcore, node="n1", application="", allocationTags={"foreign": "default"}))
        assert node.occupied == {"vcore": vcore}
    world.send(allocation("k", 7))
    world.cycle()
    assert world.running() == {}
    world.send(releases=(release("pod", application=""),))
    world.cycle()
    assert (node.occupied, world.running()) == ({}, {"k": 7})


@pytest.mark.parametrize("tags", [{}, {"foreign": "default"}])
def test_under_the_rules_of_1_4_nothing_is_foreign_and_a_uuid_is_needed(tags: dict[str, str]) -> None:
    world = World("yunikorn-1.4")
    application = "" if tags else "app"
    (refused,) = world.send(allocation("k", 2, node="n1", application=application, allocationTags=tags))
    assert isinstance(refused, facts.AllocationRejected)


def test_under_the_rules_of_1_4_a_release_without_uuid_is_of_the_application() -> None:
    world = World("yunikorn-1.4")
    world.send(allocation("k", 2), allocation("other", 1))
    world.cycle()
    world.send(releases=(release("k"),))
    assert world.running() == {}
