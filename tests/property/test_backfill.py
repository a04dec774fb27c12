"""Backfill against a plain reading of semantics section 22: nothing that was promised is delayed, nothing waits that
may start, and the order is the one of the setting.

The RM of these days releases every allocation at its bound or before it.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.facts import Allocated, Ask, Fact, NodeReserved, NodeUnreserved, PromiseChanged
from remuda_core.settings import EASY, SHORTEST, Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Node, Partition, PendingAsk

from .world import RM, World

PARTITION = f"[{RM}]default"
MOST = 10_000
LATE = "is to be released, and has not left"


class Day:
    """Asks of two queues, one with a maximum, on few nodes. `unbounded`: the share of asks without a bound."""

    def __init__(self, seed: int, order: str, unbounded: float = 0.0) -> None:
        self.random = random = Random(seed)
        self.unbounded, self.made, self.order = unbounded, 0, order
        self.world = World()
        self.ends_ms: dict[tuple[str, str], int] = {}
        self.first_ms: dict[tuple[str, str], int] = {}
        self.facts: list[Fact] = []
        queues = (QueueSettings("a"), QueueSettings("b", max={"vcore": 9}), QueueSettings("c"))
        root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
        settings = PartitionSettings(
            "default", root, preemption_enabled=False, reservation_share=random.choice((50, 100)),
            queue_reservation_share=random.choice((25, 100)), backfill=EASY, backfill_order=order,
        )  # fmt: skip
        self.handle(commands.Register(RM, Configuration("backfill", (settings,))))
        for number in range(random.randint(1, 4)):
            capacity = {"vcore": 8, "memory": random.choice((7, 8))}
            self.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", {}, capacity))
        for queue in "abc":
            for user in ("alice", "bob"):
                self.handle(commands.SubmitApplication(PARTITION, f"{queue}-{user}", f"root.{queue}", user))

    @property
    def partition(self) -> Partition:
        return self.world.state.partitions[PARTITION]

    def handle(self, command: commands.Command) -> list[Fact]:
        facts = self.world._handle(command)
        self.facts += facts
        return facts

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice((self.ask, self.wait))()
            self.release_what_ended()
            self.schedule()

    def ask(self) -> None:
        random = self.random
        self.made += 1
        size = random.choice((1, 1, 1, 2, 3, 5, 7))
        need = {"vcore": size, "memory": max(1, size - random.randint(0, 2))}
        bound_ms = 0 if random.random() < self.unbounded else 1_000 * random.choice((3, 10, 30, 60))
        tags = {"remuda/expectedRuntime": f"{random.choice((1, 5, 20, 400))}s"} if random.random() < 0.5 else {}
        name = f"{random.choice('abc')}-{random.choice(('alice', 'bob'))}"
        count = random.choice((1, 1, 1, 3))
        self.handle(commands.SubmitAsk(Ask(PARTITION, name, f"k{self.made}", need, count, 0, bound_ms, tags)))

    def wait(self) -> None:
        """Until something ends, or for three seconds."""
        soon_ms = self.world.now_ms + 3_000
        self.world.now_ms = min(self.ends_ms.values(), default=soon_ms) if self.random.random() < 0.7 else soon_ms
        self.world.now_ms = min([self.world.now_ms, *self.ends_ms.values()])

    def release_what_ended(self) -> None:
        for (name, uuid), at_ms in list(self.ends_ms.items()):
            if at_ms <= self.world.now_ms:
                del self.ends_ms[name, uuid]
                self.handle(commands.ReleaseAllocation(PARTITION, name, uuid, 1, "over"))
        self.handle(commands.Tick())

    def schedule(self) -> None:
        now_ms = self.world.now_ms
        for fact in self.handle(commands.Schedule(MOST)):
            if isinstance(fact, Allocated):
                bound_ms = fact.execution_timeout_ms or 100_000
                lasts_ms = bound_ms if self.random.random() < 0.5 else self.random.randint(1, bound_ms)
                self.ends_ms[fact.application_id, fact.uuid] = now_ms + lasts_ms
        self.check_conservation()

    def check_conservation(self) -> None:
        """No ask is left that is admitted and may be placed on a reserved node."""
        for node in self.partition.nodes.values():
            if node.reservation is None or node.promise is None:
                continue
            for application in self.partition.applications.values():
                for pending in application.asks.values():
                    if pending.free and pending is not node.reservation and self.admitted(pending):
                        assert not self.may_start(node, pending), f"{pending.ask} may start on {node.id}, and waits"

    def admitted(self, pending: PendingAsk) -> bool:
        """The queue has room for it beside all that is reserved below it."""
        queue, amount = pending.application.queue, pending.ask.resource["vcore"]
        most = queue.settings.max.get("vcore")
        kept = [node.reservation for node in self.partition.nodes.values()]
        of_queue = [one for one in kept if one is not None and one.application.queue is queue]
        reserved = sum(one.ask.resource["vcore"] for one in of_queue)
        return most is None or queue.allocated.get("vcore", 0) + reserved + amount <= most

    def may_start(self, node: Node, pending: PendingAsk) -> bool:
        now_ms, need = self.world.now_ms, pending.ask.resource
        kept_for = node.reservation
        assert kept_for is not None and node.promise is not None
        starts_ms = earliest(node, kept_for.ask.resource, now_ms)
        if starts_ms is None or starts_ms <= now_ms or not fits(free_at(node, now_ms, now_ms), need):
            return False
        until_ms = min(starts_ms, node.promise.promised_ms)
        bound_ms = pending.ask.execution_timeout_ms
        if bound_ms and now_ms + bound_ms <= until_ms:
            return True
        then = free_at(node, until_ms, now_ms)
        rest = {name: amount - need.get(name, 0) for name, amount in then.items()}
        return fits(rest, kept_for.ask.resource)


def free_at(node: Node, at_ms: int, now_ms: int) -> dict[str, int]:
    """What is free by bounds at a time, if nothing else comes."""
    free = dict(node.capacity)
    for one in node.allocations.values():
        ends_ms = one.at_ms + one.fact.execution_timeout_ms if one.fact.execution_timeout_ms else None
        if at_ms == now_ms or ends_ms is None or ends_ms > at_ms:
            for name, amount in one.fact.resource.items():
                free[name] = free.get(name, 0) - amount
    return free


def fits(free: dict[str, int], need: object) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in dict(need).items())  # type: ignore[call-overload]


def earliest(node: Node, need: object, now_ms: int) -> int | None:
    if fits(free_at(node, now_ms, now_ms), need):
        return now_ms
    ends = sorted(
        one.at_ms + one.fact.execution_timeout_ms for one in node.allocations.values() if one.fact.execution_timeout_ms
    )
    return next((at_ms for at_ms in ends if fits(free_at(node, at_ms, now_ms), need)), None)


def check_promises(day: Day) -> int:
    """Each ask starts on the node that was reserved for it at the promised time at the latest, or the reservation ends
    for another reason. Returns how many started on a node on which others had started before, while it was reserved."""
    promised: dict[str, int] = {}
    filled: set[str] = set()
    count = 0
    for now_ms, facts in day.world.log:
        ended = None
        for fact in facts:
            if isinstance(fact, NodeReserved):
                promised[fact.node_id] = fact.promised_ms
                filled.discard(fact.node_id)
            elif isinstance(fact, PromiseChanged):
                assert LATE not in fact.cause and (not fact.before_ms or day.unbounded), fact
                promised[fact.node_id] = fact.promised_ms
            elif isinstance(fact, NodeUnreserved):
                ended, at_ms = fact, promised.pop(fact.node_id)
                if fact.reason.startswith("placed on") and at_ms:
                    assert now_ms <= at_ms, f"{fact.allocation_key} was promised {at_ms}, and starts at {now_ms}"
                    count += fact.node_id in filled
            elif isinstance(fact, Allocated):
                if ended is None or ended.allocation_key != fact.allocation_key:
                    filled.update({fact.node_id} & promised.keys())
                ended = None
    return count


@given(seed=st.integers(0, 10**6), order=st.sampled_from(("", SHORTEST)))
def test_no_promise_is_broken_and_nothing_waits_that_may_start(seed: int, order: str) -> None:
    day = Day(seed, order)
    day.run(30)
    check_promises(day)
    day.world.finish()


@given(seed=st.integers(0, 10**6))
def test_asks_without_a_bound(seed: int) -> None:
    day = Day(seed, "", unbounded=0.3)
    day.run(30)
    check_promises(day)
    day.world.finish()


def test_these_days_have_promises_and_backfill() -> None:
    """Or the laws show less than they seem to."""
    count = 0
    for seed in range(16):
        day = Day(seed, ("", SHORTEST)[seed % 2])
        day.run(60)
        count += check_promises(day)
    assert count > 2
