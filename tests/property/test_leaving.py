"""Nodes that leave, against a plain reading of semantics section 24: which ask is next and where it goes is what that
reading finds, whatever the node sort policy, reservations, preemption, gangs and groups do; nothing runs on a node that
has left but what had no bound there before; and once no node leaves any more, nothing is as if one had.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.actions import Action, DrainNode, UndrainNode
from remuda_core.facts import ActionTaken, Allocated, Ask, Fact, NodeDraining, ReleaseRequested
from remuda_core.rules.leaving import lasting_ms, shorter_from_ms
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_core.state import Partition
from remuda_proto.durations import instant

from .leaving_oracle import leaves_at, stays_ms
from .leaving_storm import LeavingDeviceStorm, LeavingStorm, LeavingTopologyStorm
from .storm import played
from .world import RM, World

PARTITION = f"[{RM}]default"
MINUTE_MS = 60_000
LEVELS = (TopologyLevel("rack", "rack"),)


class Day:
    """Asks with and without bounds on nodes that leave, come back, and leave at another time."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random = random = Random(seed)
        self.kind, self.made = kind, 0
        self.world = World()
        queues = (
            QueueSettings("a", guaranteed={"vcore": 8}, properties={"preemption.delay": "1s"}),
            QueueSettings("b", max={"vcore": 9}),
        )
        root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
        settings = PartitionSettings(
            "default", root, node_sort=random.choice(("fair", "binpacking")),
            preemption_enabled=kind == "preemption",
            pack={"packed": "application", "compact": "topology"}.get(kind, ""),
            topology=LEVELS if kind in ("groups", "compact") else (),
        )  # fmt: skip
        extra = {"predicates": "true"} if kind == "predicates" else {}
        self.handle(commands.Register(RM, Configuration("leaving", (settings,)), extra_config=extra))
        for _ in range(random.randint(1, 5)):
            self.node()
        for queue in "ab":
            for user in ("alice", "bob"):
                self.handle(commands.SubmitApplication(PARTITION, f"{queue}-{user}", f"root.{queue}", user))

    @property
    def partition(self) -> Partition:
        return self.world.state.partitions[PARTITION]

    def handle(self, command: commands.Command) -> list[Fact]:
        return self.world._handle(command)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice((self.ask, self.ask, self.wait, self.wait, self.plan, self.answer, self.release))()
            self.handle(commands.Tick())
            self.check_left()
            self.schedule()

    def node(self) -> None:
        self.made += 1
        attributes = {"rack": self.random.choice("xy"), **self.attribute()}
        capacity = {"vcore": 8, "memory": self.random.choice((7, 8))}
        self.handle(commands.UpdateNode(PARTITION, f"n{self.made}", "CREATE", attributes, capacity))

    def attribute(self) -> dict[str, str]:
        return {"remuda/leavesAt": str(self.soon_ms())} if self.random.random() < 0.4 else {}

    def soon_ms(self) -> int:
        """Around the steps in which the time of a node counts, and around bounds."""
        minutes = self.random.choice((0, 1, 2, 5, 10, 30, 62, 63, 64, 65, 127, 129, 200))
        return self.world.now_ms + minutes * MINUTE_MS + self.random.choice((1, 4_999, 5_000, 5_001, 30_000, 65_000))

    def plan(self) -> None:
        """A node is to leave at a time, or not any more, or comes or goes."""
        random, nodes = self.random, sorted(self.partition.nodes)
        if not nodes or random.random() < 0.1:
            return self.node()
        node_id = random.choice(nodes)
        choice = random.random()
        if choice < 0.35:
            self.act(DrainNode(node_id, self.soon_ms() if random.random() < 0.9 else 0))
        elif choice < 0.6:
            self.act(UndrainNode(node_id))
        elif choice < 0.7:
            self.handle(commands.UpdateNode(PARTITION, node_id, "UPDATE", {"remuda/leavesAt": str(self.soon_ms())}))
        elif choice < 0.9:
            self.handle(commands.UpdateNode(PARTITION, node_id, "UPDATE", {"remuda/leavesAt": ""}))
            self.handle(commands.UpdateNode(PARTITION, node_id, "DRAIN_TO_SCHEDULABLE"))
        else:
            self.handle(commands.UpdateNode(PARTITION, node_id, "DECOMISSION"))
        return None

    def act(self, action: Action) -> list[Fact]:
        self.made += 1
        return self.handle(commands.Administer("sam", (), True, "", f"a{self.made}", False, PARTITION, action))

    def ask(self) -> None:
        random = self.random
        self.made += 1
        size = random.choice((1, 1, 2, 3, 5, 8))
        need = {"vcore": size, "memory": max(1, size - random.randint(0, 2))}
        bound_ms = random.choice((0, 1, 1, 2, 5, 9, 10, 60, 62, 64, 126, 128)) * MINUTE_MS - random.choice(
            (0, 0, 1_000)
        )
        tags = {}
        if random.random() < 0.1 and self.partition.nodes:
            tags = {"si/requiredNode": random.choice(sorted(self.partition.nodes))}
        elif self.kind == "groups" and random.random() < 0.4:
            tags = {f"remuda/topology.{random.choice(('required', 'preferred', 'spread'))}": "rack"}
        self.handle(
            commands.SubmitAsk(
                Ask(
                    PARTITION, f"{random.choice('ab')}-{random.choice(('alice', 'bob'))}", f"k{self.made}", need,
                    random.choice((1, 1, 3)), 0, max(0, bound_ms), tags, allow_preempt_other=random.random() < 0.5,
                    allow_preempt_self=random.random() < 0.7,
                )
            )
        )  # fmt: skip

    def wait(self) -> None:
        self.world.now_ms += self.random.choice((1, 1_000, 3_000, 30_000, MINUTE_MS, 7 * MINUTE_MS, 40 * MINUTE_MS))

    def answer(self) -> None:
        for number in list(self.partition.questions):
            self.handle(commands.AnswerPredicate(PARTITION, number, self.random.random() < 0.8, "no"))

    def release(self) -> None:
        """The RM confirms what it was asked to release, and something ends by itself."""
        for allocation in list(self.partition.allocations.values()):
            if allocation.releasing or self.random.random() < 0.2:
                fact = allocation.fact
                self.handle(
                    commands.ReleaseAllocation(
                        PARTITION, fact.application_id, fact.uuid, allocation.releasing or 1, "over"
                    )
                )

    def schedule(self) -> None:
        if self.random.random() < 0.5:
            self.world.schedule_one()
        else:
            self.world.schedule(self.random.choice((3, 10_000)))

    def check_left(self) -> None:
        """After a tick every node is drained whose time has come, and what had a bound there has been asked back."""
        for node in self.partition.nodes.values():
            assert not 0 < leaves_at(node) <= self.world.now_ms, f"{node.id} should have left at {leaves_at(node)}"


KINDS = ("plain", "preemption", "packed", "compact", "groups", "predicates")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_what_starts_on_a_node_that_leaves_ends_before(kind: str, seed: int) -> None:
    Day(seed, kind).run(25)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_what_has_a_bound_is_asked_back_before_the_node_drains(seed: int) -> None:
    day = Day(seed, "plain")
    for node_id in sorted(day.partition.nodes):
        if day.random.random() < 0.6:
            day.act(DrainNode(node_id, day.soon_ms()))
    running: dict[str, str] = {}
    for _ in range(30):
        day.random.choice((day.ask, day.wait))()
        for fact in day.handle(commands.Tick()):
            if isinstance(fact, ReleaseRequested):
                running.pop(fact.uuid, None)
            elif isinstance(fact, NodeDraining):
                assert fact.node_id not in running.values(), f"{running} and {fact.node_id} has left"
        for fact in day.handle(commands.Schedule(100)):
            if isinstance(fact, ReleaseRequested):
                running.pop(fact.uuid, None)
            elif isinstance(fact, Allocated) and "si/requiredNode" not in fact.tags:
                running[fact.uuid] = fact.node_id


@given(left_ms=st.integers(0, 2**40), now_ms=st.integers(0, 2**42))
def test_the_time_that_counts_is_that_of_the_plain_reading_until_it_falls(left_ms: int, now_ms: int) -> None:
    leaves_ms = now_ms + left_ms
    lasts_ms = lasting_ms(leaves_ms, now_ms)
    assert lasts_ms == stays_ms(left_ms) <= left_ms
    assert left_ms - lasts_ms <= max(2 * MINUTE_MS, left_ms // 16), "what is lost of it"
    falls_ms = shorter_from_ms(leaves_ms, now_ms)
    if lasts_ms:
        assert lasting_ms(leaves_ms, falls_ms - 1) == lasts_ms > lasting_ms(leaves_ms, falls_ms)
    else:
        assert falls_ms > leaves_ms


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_when_no_node_leaves_any_more_all_is_as_if_none_had(seed: int) -> None:
    """Two worlds with the same asks. In one, times to leave come and go while nothing is placed."""
    days = with_times, _ = Day(seed, "plain"), Day(seed, "plain")
    for day in days:
        for node_id in sorted(day.partition.nodes):
            day.handle(commands.UpdateNode(PARTITION, node_id, "UPDATE", {"remuda/leavesAt": ""}))
        for _ in range(8):
            day.ask()
    for node_id in sorted(with_times.partition.nodes):
        assert isinstance(with_times.act(DrainNode(node_id, with_times.soon_ms()))[0], ActionTaken)
    with_times.handle(commands.Schedule(0))
    for node_id in sorted(with_times.partition.nodes):
        with_times.act(UndrainNode(node_id))
    with_times.handle(commands.Schedule(0))
    assert not with_times.partition.leaving
    assert not any(timer.kind == "leaving" for timer in with_times.world.state.timers)
    index = with_times.world.core.index.find(with_times.partition)
    assert index is not None and index.nodes.falls is None
    placed = [
        [(f.allocation_key, f.node_id) for f in day.handle(commands.Schedule(1_000)) if isinstance(f, Allocated)]
        for day in days
    ]
    assert placed[0] == placed[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1), ("1800000000000", 1_800_000_000_000), ("1970-01-01T00:00:01Z", 1_000),
        ("2027-03-01T08:00:00+01:00", 1_803_884_400_000), ("2027-03-01 07:00:00.5Z", 1_803_884_400_500),
        ("0", None), ("-5", None), ("", None), ("tomorrow", None), ("2027-03-01T08:00:00", None),
        ("1969-12-31T23:59:59Z", None), ("9" * 16, None), ("٣", None), ("2027-03-01", None), ("2" * 400, None),
    ],
)  # fmt: skip
def test_times_are_milliseconds_or_have_a_zone(text: str, expected: int | None) -> None:
    assert instant(text) == expected


@pytest.mark.parametrize("kind", [LeavingStorm, LeavingDeviceStorm, LeavingTopologyStorm])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_nodes_leave_on_days_of_any_kind(kind: type[LeavingStorm], seed: int) -> None:
    played(kind(seed), seed, 80)
