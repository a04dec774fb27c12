"""Guests: an RM that names no application does not reach them, and they do not tell each other their names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from remuda_core.check import check
from remuda_core.commands import (
    Register,
    ReleaseAllocation,
    ReleaseAsk,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    UpdateNode,
)
from remuda_core.core import Core
from remuda_core.explain import Explanations
from remuda_core.facts import (
    Allocated,
    AllocationReleased,
    ApplicationAccepted,
    ApplicationStateChanged,
    Ask,
    AskReleased,
    GuestKept,
    NodeReserved,
    PreemptionStarted,
    QueueAdded,
    ReleaseIgnored,
    ReleaseRequested,
    RmRegistered,
)
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, built_in

PARTITION = "[rm-1]default"
GUEST, KEY = "@peloton.default.pool", "@peloton.default.run"


def core_with_a_guest() -> Core:
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    core.handle(UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 1}), 1_000)
    core.handle(SubmitApplication(PARTITION, GUEST, "", "u", tags={"namespace": "a"}), 1_000)
    core.handle(SubmitAsk(Ask(PARTITION, GUEST, KEY, {"vcore": 1}, 2)), 1_000)
    return core


@pytest.mark.parametrize(("named", "is_reached"), [("", False), (GUEST, True)])
def test_a_release_by_uuid(named: str, is_reached: bool) -> None:
    """UUIDs are numbered: an RM can guess those of guests."""
    core = core_with_a_guest()
    [uuid] = [fact.uuid for fact in core.handle(Schedule(1), 1_000) if isinstance(fact, Allocated)]
    found = core.handle(ReleaseAllocation(PARTITION, named, uuid, allocation_key=KEY), 2_000)
    assert isinstance(found[0], AllocationReleased if is_reached else ReleaseIgnored)


@pytest.mark.parametrize(("named", "is_reached"), [("", False), (GUEST, True)])
def test_a_release_of_an_ask(named: str, is_reached: bool) -> None:
    core = core_with_a_guest()
    found = core.handle(ReleaseAsk(PARTITION, named, KEY), 2_000)
    assert any(isinstance(fact, AskReleased) for fact in found) == is_reached


def core_with_both(**settings: Any) -> Core:
    """The RM's application `own` and a guest, each in a queue of its own."""
    core = Core("rm-1")
    queues = tuple(
        QueueSettings(name, guaranteed={"vcore": 2} if name == settings.get("guaranteed") else {}, submit_acl="*")
        for name in ("own", "pool")
    )
    partition = PartitionSettings("default", QueueSettings("root", parent=True, queues=queues), preemption_enabled=True)
    core.handle(Register("rm-1", Configuration("1", (partition,))), 1_000)
    core.handle(UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 2}), 1_000)
    core.handle(SubmitApplication(PARTITION, GUEST, "root.pool", "u"), 1_000)
    core.handle(SubmitApplication(PARTITION, "own", "root.own", "u"), 1_000)
    return core


@pytest.mark.parametrize(("victim", "key", "other", "expected"), [
    ("own", "k1", GUEST, "preempted for a guest"),
    (GUEST, KEY, "own", "preempted for the resource manager"),
])  # fmt: skip
def test_who_is_preempted_does_not_learn_for_whom(victim: str, key: str, other: str, expected: str) -> None:
    """The application, the key and the queue are names of another tenant. PreemptionStarted has them, for operators."""
    core = core_with_both(guaranteed="pool" if other == GUEST else "own")
    core.handle(SubmitAsk(Ask(PARTITION, victim, key, {"vcore": 2}, 1, allow_preempt_self=True)), 1_000)
    core.handle(Schedule(1), 1_000)
    core.handle(SubmitAsk(Ask(PARTITION, other, "@peloton.k2", {"vcore": 2}, 1, allow_preempt_other=True)), 2_000)
    found = core.handle(Schedule(10), 120_000)
    assert [one.message for one in found if isinstance(one, ReleaseRequested)] == [expected], found
    assert [one.application_id for one in found if isinstance(one, PreemptionStarted)] == [other]


@pytest.mark.parametrize(("holder", "reader", "expected"), [
    (GUEST, "own", "kept for a guest"),
    ("own", GUEST, "kept for the resource manager"),
    ("own", "own", "kept for own/k2"),
])  # fmt: skip
def test_who_waits_does_not_learn_for_whom_a_node_is_kept(holder: str, reader: str, expected: str) -> None:
    core = core_with_both()
    core.handle(SubmitAsk(Ask(PARTITION, "own", "k1", {"vcore": 1}, 1)), 1_000)
    core.handle(Schedule(1), 1_000)
    core.handle(SubmitAsk(Ask(PARTITION, holder, "k2", {"vcore": 2}, 1, tags={"si/requiredNode": "n1"})), 2_000)
    assert [one.node_id for one in core.handle(Schedule(1), 60_000) if isinstance(one, NodeReserved)] == ["n1"]
    core.handle(SubmitAsk(Ask(PARTITION, reader, "k3", {"vcore": 1}, 1)), 60_000)
    core.handle(Schedule(1), 61_000)
    partition = core.state.partitions[PARTITION]
    constraint, *_ = Explanations(core.state, core.index).of(partition, partition.applications[reader].asks["k3"])
    assert constraint.reason == f"node n1 is {expected}"


def test_a_log_of_a_version_that_dropped_guests_reads_as_it_did() -> None:
    """Its registrations do not say that guests are kept; what it decided afterwards was without them."""
    core = core_with_a_guest()
    core.handle(Schedule(1), 1_000)
    found = core.handle(Register("rm-1", built_in()), 2_000)
    old = [replace(one, keeps_guests=False) if isinstance(one, RmRegistered) else one for one in found]
    before = [one for one in old if not isinstance(one, GuestKept | ApplicationAccepted | ApplicationStateChanged)]
    reader = core_with_a_guest()
    reader.handle(Schedule(1), 1_000)
    reader.replay([one for one in before if not (isinstance(one, QueueAdded) and one.queue == "root.a")], 2_000)
    [partition] = reader.state.partitions.values()
    assert not (reader.state.left_guests or partition.unreported or partition.allocations)
    check(reader.state)
