"""The ledger is the integral over the log: on every storm, in each hour, for each application, wherever it restarts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.core import Core
from remuda_core.facts import Fact
from remuda_core.snapshot import save
from remuda_core.wire import snapshot_format
from remuda_core.wire.facts import WRITERS
from remuda_events.ledger import checkpoints
from remuda_events.ledger.projection import ClosedDay, Projection, plain
from remuda_operations.ledger import hours
from remuda_operations.ledger.hours import HOUR_MS
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Position

from .spending_storm import HourlyStorm
from .storm import played, storm
from .world import RM

# By begin of the hour, partition, queue, user, application and resource.
Integral = dict[tuple[int, str, str, str, str, str], int]

AT = Position(3, b"hash")


def commit_of(at_ms: int, facts: Iterable[Fact]) -> log_pb2.Commit:
    commit = log_pb2.Commit(now_ms=at_ms)
    decision = commit.decisions.add(command="x")
    for fact in facts:
        WRITERS[type(fact)](fact, decision.facts.add())
    return commit


def integral(log: Iterable[tuple[int, list[Fact]]]) -> Integral:
    """What the state says is booked, for as long as it is, hour by hour."""
    sums: Integral = defaultdict(int)
    core, since_ms = Core(RM), 0
    for at_ms, facts in log:
        for begin, length in pieces(since_ms, at_ms) if since_ms else ():
            for partition in core.state.partitions.values():
                for one in partition.applications.values():
                    for held in (one.allocated, one.allocated_placeholder):
                        for name, amount in held.items():
                            key = (begin, plain(partition.name), one.queue.path, one.user, one.id, name)
                            sums[key] += amount * length
        core.replay(facts, at_ms)
        since_ms = at_ms
    return {key: amount for key, amount in sums.items() if amount}


def pieces(since_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    """The hours that the time touches, and how long it is in each."""
    while since_ms < until_ms:
        end = min(until_ms, hours.hour_of(since_ms) + HOUR_MS)
        yield hours.hour_of(since_ms), end - since_ms
        since_ms = end


class Reader:
    """Adds up what is used in the messages of closed hours, and keeps them."""

    def __init__(self) -> None:
        self.sums: Integral = defaultdict(int)
        self.messages: list[bytes] = []
        self.by_day: dict[tuple[int, hours.RowKey, str], int] = defaultdict(int)
        self.days: dict[tuple[int, hours.RowKey, str], int] = {}

    def take(self, projection: Projection, commit: log_pb2.Commit) -> None:
        for closed in projection.apply(commit):
            for message in hours.encode(closed[0], closed.rows):
                self.messages.append(message)
                rows = hours.rows_of(hours.decode(message))
                for key, name, amount in ((key, name, amount) for key, kept in rows for name, amount in kept.items()):
                    if isinstance(closed, ClosedDay):
                        self.days[closed.day_ms, key, name] = amount
                        continue
                    self.by_day[hours.day_of(closed.hour_ms), key, name] += amount
                    if key.kind in hours.USE:
                        self.sums[closed.hour_ms, *key[:3], key.application, name] += amount


@given(st.integers(0, 10**6), st.sets(st.integers(0, 120)))
def test_the_ledger_is_the_integral_over_the_log(seed: int, restarts: set[int]) -> None:
    log = storm(seed, 80).log
    end = (hours.hour_of(log[-1][0]) + HOUR_MS, list[Fact]())
    straight, restarted = Reader(), Reader()
    always, resumed = Projection(), Projection()
    for number, (at_ms, facts) in enumerate([*log, end]):
        commit = commit_of(at_ms, facts)
        straight.take(always, commit)
        restarted.take(resumed, commit)
        if number in restarts:
            payload = checkpoints.encode(resumed, AT)
            resumed, position = checkpoints.decode(payload)
            assert position == AT
            assert checkpoints.encode(resumed, AT) == payload
    assert dict(straight.sums) == integral([*log, end])
    assert restarted.messages == straight.messages
    assert straight.days == {
        key: amount for key, amount in straight.by_day.items() if key[0] < hours.day_of(end[0]) and amount
    }


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_is_used_of_a_budget_is_what_the_ledger_says(first: int) -> None:
    """Of the budgets whose period began with an hour, at the end of an hour."""
    compared = 0
    for seed in range(first, first + 20):
        world = played(HourlyStorm(seed), seed, 120)
        end_ms = hours.hour_of(world.log[-1][0]) + HOUR_MS
        reader, projection = Reader(), Projection()
        for at_ms, facts in [*world.log, (end_ms, list[Fact]())]:
            reader.take(projection, commit_of(at_ms, facts))
        world.state.now_ms = end_ms
        for (partition, path), budget in world.state.budgets.items():
            if budget.from_ms % HOUR_MS or budget.until_ms % HOUR_MS:
                continue
            until_ms = min(end_ms, budget.until_ms)
            sums: dict[str, int] = defaultdict(int)
            for (hour_ms, where, queue, _, _, name), amount in reader.sums.items():
                if where == plain(partition) and f"{queue}.".startswith(f"{path}."):
                    sums[name] += amount if budget.from_ms <= hour_ms < until_ms else 0
            for name in {*sums, *budget.past}:
                assert budget.used_of(name) == sums[name], f"seed {seed}: {budget}: {name}"
                compared += sums[name] > 0
    assert compared, "no budget was used"


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_a_ledger_that_begins_at_a_snapshot_is_the_integral_behind_it(seed: int, where: float) -> None:
    log = storm(seed, 60).log
    begin = int(where * (len(log) - 1))
    core = Core(RM)
    for at_ms, facts in log[: begin + 1]:
        core.replay(facts, at_ms)
    payload = b"".join(snapshot_format.write(RM, AT, save(core.state)))
    projection, position = checkpoints.from_snapshot(payload, RM)
    assert position == AT
    end = (hours.hour_of(log[-1][0]) + HOUR_MS, list[Fact]())
    reader = Reader()
    for at_ms, facts in [*log[begin + 1 :], end]:
        reader.take(projection, commit_of(at_ms, facts))
    before, whole = integral(log[: begin + 1]), integral([*log, end])
    found = {key: amount - before.get(key, 0) for key, amount in whole.items()}
    assert dict(reader.sums) == {key: amount for key, amount in found.items() if amount}
