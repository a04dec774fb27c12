"""A core whose every step is checked, and which remembers its log."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from remuda_core.check import check, check_decision, digest
from remuda_core.commands import Command, Schedule
from remuda_core.core import Core
from remuda_core.facts import (
    Allocated,
    AskOutstanding,
    AskWaiting,
    Fact,
    NodeReserved,
    NodeUnreserved,
    PredicateAsked,
    PredicatesAsked,
    PreemptionAsked,
    PreemptionStarted,
    ReplacementStarted,
)
from remuda_core.rules.connection import RUNNING
from remuda_core.snapshot import restore, save
from remuda_core.state import Partition, State
from remuda_core.wire import schema, snapshot_format
from remuda_core.wire.facts import WRITERS, read_fact
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Position

from . import leaving_oracle, spending_oracle
from .avoidance_oracle import check_avoided
from .oracle import Next, next_step, something_is_too_small

RM = "rm-1"
# How the reason ends why a node is taken from an ask of less right.
TAKEN = "has more right to this node"
# Until nothing is left to be done, if nothing else happens: a pass tries only so much preemption.
PASSES = 50
# So often a state restored from a snapshot has to be the same and to decide the same.
RESTORE_EVERY = 7


class World:
    def __init__(self, rm_id: str = RM, *, check_always: bool = True) -> None:
        """`check_always`: off, the state is checked only at the end. Checking settles what the index puts off, so some
        bugs show only between look-ups."""
        self.core = Core(rm_id)
        self.now_ms = 1_000_000
        self.log: list[tuple[int, list[Fact]]] = []
        self._check_always = check_always
        self.spending = spending_oracle.Spending()

    @property
    def state(self) -> State:
        return self.core.state

    def handle(self, command: Command) -> list[Fact]:
        if isinstance(command, Schedule):
            return self.schedule(command.limit)
        return self._handle(command)

    def _handle(self, command: Command) -> list[Fact]:
        leaving_oracle.clock["now_ms"] = self.now_ms
        self.spending.time_passes(self.state, self.now_ms)
        leaving_oracle.world["partitions"] = self.state.partitions
        before = {one.name: (one.avoided, one.avoided_ms) for one in self.state.partitions.values()}
        restored = self.restored() if len(self.log) % RESTORE_EVERY == RESTORE_EVERY - 1 else None
        facts = self.core.handle(command, self.now_ms)
        if restored is not None:
            same = restored.handle(command, self.now_ms)
            assert decisions(same) == decisions(facts), f"restored:\n{lines(same)}\nlive:\n{lines(facts)}"
        self.log.append((self.now_ms, facts))
        self.spending.follow(self.state, facts)
        self.spending.check(self.state)
        check_decision(self.state, facts)
        if isinstance(command, Schedule) and self.state.rm_state == RUNNING:
            for partition in self.state.partitions.values():
                if partition.settings.topology:
                    delay_ms = self.state.timing.domain_delay_ms
                    check_avoided(partition, before[partition.name], facts, self.now_ms, delay_ms)
        if self._check_always:
            check(self.state, self.core.index, grown=restored is not None)
        return facts

    def schedule(self, limit: int) -> list[Fact]:
        facts = self._handle(Schedule(limit))
        partitions = self.state.partitions.values()
        made = sum(len(steps(partition, facts)) for partition in partitions)
        if not any(partition.settings.topology for partition in partitions):  # a group starts whole
            assert made <= max(limit, len(partitions))
        for partition in partitions:
            left = None if preempted(partition, facts) or ends(partition, facts) else self._next(partition)
            assert made >= limit or left is None, "an ask that fits everywhere was left"
        return facts

    def _next(self, partition: Partition) -> Next | None:
        leaving_oracle.clock["now_ms"] = self.now_ms
        spending_oracle.worlds[0] = self.spending
        leaving_oracle.world["partitions"] = self.state.partitions
        if self.state.rm_state != RUNNING:
            return None
        return next_step(partition, self.now_ms, self.state.reservation_delay_ms)

    def schedule_one(self) -> list[Fact]:
        """The next step of each partition, which is the one that a plain reading of the semantics finds."""
        expected = [
            (partition, self._next(partition))
            for partition in self.state.partitions.values()
            if not something_is_too_small(partition)
        ]
        freed = [partition for partition, _ in expected if frees_a_group(partition)]
        facts = self._handle(Schedule(1))
        for partition, step in expected:
            if partition in freed:
                continue  # the pass begins with the group
            made = steps(partition, facts, questions=True)
            if before := preempted_before(partition, facts):
                step = self._next_after(before, partition.name)
            if taken_first(partition, facts):
                continue
            assert (step is None) == (not made), f"expected {step}, got {made}"
            if step is not None:
                kind, got = made[0]
                what = (kind, got.application_id, got.allocation_key)
                assert what == (step.kind, step.application_id, step.allocation_key), f"next is {step}, got {got}"
                assert got.node_id in step.nodes, f"best nodes are {sorted(step.nodes)}, got {got}"
        return facts

    def _next_after(self, facts: list[Fact], partition: str) -> Next | None:
        """Once asks that are bound to a node have preempted there, which is the begin of the last pass: they keep their
        places."""
        core = Core(self.state.rm_id)
        for now_ms, earlier in self.log[:-1]:
            core.replay(earlier, now_ms)
        core.replay(facts, self.now_ms)
        return next_step(core.state.partitions[partition], self.now_ms, core.state.reservation_delay_ms)

    def replayed(self, *, over_the_wire: bool = False) -> Core:
        core = Core(self.state.rm_id)
        for now_ms, facts in self.log:
            core.replay([over(fact) for fact in facts] if over_the_wire else facts, now_ms)
        return core

    def restored(self) -> Core:
        """Out of a snapshot."""
        core = Core(self.state.rm_id)
        records = list(save(self.state))
        payload = b"".join(snapshot_format.write(core.state.rm_id, Position(1, b"hash"), records))
        position, read = snapshot_format.read(core.state.rm_id, payload)
        assert position == Position(1, b"hash")
        core.go_on_from(restore(core.state.rm_id, read))
        check(core.state, core.index)
        assert digest(core.state) == digest(self.state), "the restored state is not the live one"
        assert list(save(core.state)) == records, "something stands in another order"
        return core

    def decides_like_replayed(self, limit: int) -> None:
        """The live index against one built anew: both schedule the same."""
        fresh = self.replayed()
        expected = fresh.handle(Schedule(limit), self.now_ms)
        got = self._handle(Schedule(limit))
        assert got == expected, f"live:\n{lines(got)}\nreplayed:\n{lines(expected)}"

    def finish(self) -> None:
        check(self.state, self.core.index)
        live = digest(self.state)
        for core in (self.replayed(), self.replayed(over_the_wire=True)):
            check(core.state, core.index)
            assert digest(core.state) == live, "replayed state is not the live one"
        self.restored()
        self.decides_like_replayed(1_000)
        check(self.state, self.core.index)
        for _ in range(PASSES):
            if not self._handle(Schedule(1_000)):
                return
        raise AssertionError("it never comes to rest")


def decisions(facts: list[Fact]) -> list[Fact]:
    """Without explanations, which go on where the index stands and begin anew with a new one, and without reasons,
    which name the first of several resources that are short: on the wire they have no order."""
    decided = [fact for fact in facts if not isinstance(fact, AskWaiting | AskOutstanding)]
    return [msgspec.structs.replace(fact, reason="") if hasattr(fact, "reason") else fact for fact in decided]


Done = Allocated | PredicateAsked | NodeReserved


def steps(partition: Partition, facts: list[Fact], questions: bool = False) -> list[tuple[type[Fact], Done]]:
    """An action, and its ask or application. A question is asked for an allocation. A node that is reserved because
    others are preempted is no step."""
    made: list[tuple[type[Fact], Done]] = []
    preempts: PreemptionStarted | None = None
    for fact in facts:
        if isinstance(fact, PreemptionStarted):
            preempts = fact
        elif isinstance(fact, ReplacementStarted):
            made.append((ReplacementStarted, fact.allocation))
        elif isinstance(fact, NodeReserved):
            if preempts is None or whose(preempts) != whose(fact):
                made.append((NodeReserved, fact))
            preempts = None
        elif isinstance(fact, Allocated | PredicateAsked):
            made.append((Allocated, fact))
        elif isinstance(fact, PredicatesAsked) and questions:
            made.append((Allocated, about_the_first(fact)))
    return [(kind, fact) for kind, fact in made if fact.partition == partition.name]


def about_the_first(fact: PredicatesAsked) -> PredicateAsked:
    """The question about the first of the nodes, on which the named ask would be placed."""
    return PredicateAsked(
        fact.partition, fact.application_id, fact.allocation_key, fact.node_ids[0], fact.resource, "place",
        fact.question, fact.answer_by_ms,
    )  # fmt: skip


def whose(fact: PreemptionStarted | NodeReserved) -> tuple[str, str, str]:
    return fact.partition, fact.application_id, fact.allocation_key


def preempted_before(partition: Partition, facts: list[Fact]) -> list[Fact]:
    """All that happened before the first step of a partition, if others were preempted in it by then."""
    facts = list(takewhile(lambda f: not isinstance(f, PredicatesAsked) or f.partition != partition.name, facts))
    first = next((fact for _, fact in steps(partition, facts)), None)
    before = facts if first is None else facts[: next(n for n, fact in enumerate(facts) if step_of(fact) is first)]
    begun = any(isinstance(f, PreemptionStarted) and f.partition == partition.name for f in before)
    if not begun and (ended := ends(partition, before)):
        return before[: before.index(ended[-1]) + 1]
    return before if begun else []


def ends(partition: Partition, facts: list[Fact]) -> list[Fact]:
    """Reservations that end because they are not justified any more."""
    return [
        fact
        for fact in facts
        if isinstance(fact, NodeUnreserved)
        and fact.partition == partition.name
        and not fact.reason.startswith("placed on ")
        and not fact.reason.endswith((TAKEN, "has to be on this node"))
    ]


def frees_a_group(partition: Partition) -> bool:
    """All victims of a preemption for a group have left."""
    together = [one for one in partition.preemptions.values() if one.nodes]
    return any(not any(uuid in partition.allocations for uuid in one.uuids) for one in together)


def taken_first(partition: Partition, facts: list[Fact]) -> bool:
    """The first step takes a node from an ask of less right."""
    first = next((fact for _, fact in steps(partition, facts)), None)
    own = [f for f in facts if isinstance(f, NodeUnreserved) and f.partition == partition.name]
    taken = next((fact for fact in own if not ends(partition, [fact])), None)
    return (
        first is not None
        and taken is not None
        and taken.reason.endswith(TAKEN)
        and taken.node_id == getattr(first, "node_id", "")
    )


def step_of(fact: Fact) -> Fact:
    return fact.allocation if isinstance(fact, ReplacementStarted) else fact


def preempted(partition: Partition, facts: list[Fact]) -> bool:
    """A node may have been given back for another, and a reservation whose ask preempts there, or asks whether it may,
    counts for no share any more: there may be something to do again."""
    here = [fact for fact in facts if isinstance(fact, PreemptionStarted | PreemptionAsked)]
    here = [fact for fact in here if fact.partition == partition.name]
    return any(isinstance(fact, PreemptionStarted) or partition.nodes[fact.node_id].reservation for fact in here)


def over(fact: Fact) -> Fact:
    """Written and read."""
    message = log_pb2.Fact()
    WRITERS[type(fact)](fact, message)
    return read_fact(schema.Fact.FromString(message.SerializeToString()))


def lines(facts: list[Fact]) -> str:
    return "\n".join(map(repr, facts))
