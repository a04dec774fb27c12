"""The memory of a replay follows from what is alive, and not from the length of the period."""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remuda.history import measures, spool, workload
from remuda.history.changes import events_with
from remuda.history.decided import read
from remuda.history.measures import Measures
from remuda.history.replay import UNCHANGED
from remuda.history.spool import ApplicationWaits
from remuda.history.workload import Extraction
from remuda.history.world import World
from remuda_bus.bus import Message
from remuda_config import load
from remuda_core.core import Core
from remuda_core.shell.deciding import Deciding
from remuda_core.wire import schema
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si

RM, PARTITION = "rm-1", "[rm-1]default"
QUEUES = 'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]'
NOON, STEP_MS = 1_800_000_000_000, 10_000
APPLICATIONS, ASKS = 200, 10
# An application asks for one more in each step, and each runs for so many steps.
RUNS_STEPS = 6
# Records of ended applications, for so long.
ENDED_MS = 60_000
# Of a number in an array there are eight.
BYTES_OF_AN_ASK = 50


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is with more asks than have a place in a sample, or are written at once."""
    monkeypatch.setattr(spool, "_AT_ONCE", 20)
    monkeypatch.setattr(spool, "_AHEAD", 7)
    monkeypatch.setattr(spool, "_AHEAD_MOST", 20)
    monkeypatch.setattr(workload, "RUNS_OF_ALL", 50)
    monkeypatch.setattr(workload, "RUNS_OF_USER", 50)
    monkeypatch.setattr(measures, "EXACT_TIMES", 50)
    monkeypatch.setattr(measures, "POINTS", 4)


async def commits() -> AsyncIterator[tuple[int, log_pb2.Commit, list[Message]]]:
    """With the number of the application: one after the other, each with its asks and their ends, and its own."""
    core, now_ms, seq = Core(RM), NOON, 0
    deciding = Deciding(core, lambda: now_ms)

    async def decided(command: inbox_pb2.Command) -> tuple[log_pb2.Commit, list[Message]]:
        nonlocal seq
        seq += 1
        message = Message("", command.SerializeToString(), {}, seq, 0)
        commit, _ = await deciding.commit(deque([message]), 1)
        return schema.Commit.FromString(commit.SerializeToString()), [message]

    first = inbox_pb2.Command()
    first.register.rm_id = RM
    first.register.configuration.CopyFrom(load(QUEUES))
    first.register.configuration.timing.ended_ms = ENDED_MS
    yield 0, *await decided(first)
    nodes = inbox_pb2.Command()
    node = nodes.node.nodes.add(nodeID="n1", action=si.NodeInfo.CREATE)
    node.attributes["si/node-partition"] = PARTITION
    node.schedulableResource.resources["vcore"].value = 4 * RUNS_STEPS
    yield 0, *await decided(nodes)
    running = deque[tuple[int, si.Allocation]]()
    for number in range(APPLICATIONS):
        application = inbox_pb2.Command()
        new = application.application.new.add(
            applicationID=f"app-{number}", queueName="root.a", partitionName=PARTITION
        )
        new.ugi.user = "alice"
        commands = [application]
        for key in range(ASKS):
            ask = inbox_pb2.Command()
            asked = ask.allocation.asks.add(
                applicationID=f"app-{number}", allocationKey=f"k{key}", partitionName=PARTITION, maxAllocations=1
            )
            asked.resourceAsk.resources["vcore"].value = 1
            commands.append(ask)
        for command in commands:
            now_ms += STEP_MS
            while running and running[0][0] <= now_ms:
                one = running.popleft()[1]
                over = inbox_pb2.Command()
                over.allocation.releases.allocationsToRelease.add(
                    partitionName=PARTITION, applicationID=one.applicationID, UUID=one.UUID,
                    terminationType=si.STOPPED_BY_RM,
                )  # fmt: skip
                yield number, *await decided(over)
            commit, messages = await decided(command)
            running += (
                (now_ms + RUNS_STEPS * STEP_MS, fact.allocated.allocation)
                for decision in commit.decisions
                for fact in decision.facts
                if fact.HasField("allocated")
            )
            yield number, commit, messages
        removal = inbox_pb2.Command()
        removal.application.remove.add(applicationID=f"app-{number - 2}", partitionName=PARTITION)
        yield number, *await decided(removal)


class Memory:
    """Of this process, after a third of the applications and after all, in bytes an ask between the two."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}

    def after(self, application: int) -> None:
        if application in (APPLICATIONS // 3, APPLICATIONS - 1) and application not in self._at:
            gc.collect()
            self._at[application] = tracemalloc.get_traced_memory()[0]

    @property
    def of_an_ask(self) -> float:
        (first, begin), (last, end) = self._at.items()
        return (end - begin) / (last - first) / ASKS


@contextmanager
def traced() -> Iterator[Memory]:
    tracemalloc.start()
    try:
        yield Memory()
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_asks_of_a_period(tmp_path: Path) -> None:
    lived = [one async for one in commits()]
    extraction = Extraction(Core(RM))
    extraction.found.begin_ms, end_ms = NOON, lived[-1][1].now_ms
    actual = Measures(Core(RM).state, NOON, end_ms)
    with traced() as memory:
        for number, commit, messages in lived:
            decided = read(commit, messages)
            extraction.take(commit, decided)
            actual.take_all((fact for one in decided for fact in one.facts), commit.now_ms)
            memory.after(number)
    assert memory.of_an_ask < BYTES_OF_AN_ASK, "reading"
    period = extraction.finish()
    assert actual.waits["all", ""].ended.count == APPLICATIONS * ASKS

    core, waits = Core(RM), ApplicationWaits(tmp_path / "waits")
    with traced() as memory:
        world = World(core, period, events_with(UNCHANGED, core, period), by_application=waits)
        for now_ms in world.moments():
            memory.after((now_ms - NOON) // (STEP_MS * (ASKS + 1)))
    assert memory.of_an_ask < BYTES_OF_AN_ASK, "playing"
    assert world.played.runs == APPLICATIONS * ASKS and world.played.censored == RUNS_STEPS, "these run in the end"
    assert len(spool.means_of(tmp_path / "waits")) == APPLICATIONS
