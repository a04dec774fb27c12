"""Measures what a restart is made of: facts out of a log, and a state out of a snapshot.

    python bench/replay.py [--json] [--facts N] [--allocations N] [--nodes N] [--log FILE] [--case log|snapshot]

log        A day of a cluster is written as commits, then read by a process of its own as a restarted core does: parsed,
           found to be one chain, applied, nothing decided. `facts_per_s` by the clock, and by the processor. How much
           memory the process that decided the day (the leader) and the one that replays it (the follower) have after a
           fifth of it, when as much ends as begins, and at the end: `growth_percent` is what history leaves behind.
           --log keeps the day in a file, and takes it from there the next time.
snapshot   A full cluster. `stopped_ms`: for how long the leader stands still while it forks, and `written_s` until the
           child has written all; `restored_s`: from bytes to a state that can decide. Both without the server.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from remuda_bus.bus import Message
from remuda_bus.streams.history_check import digest_of
from remuda_core.check import digest
from remuda_core.commands import (
    CleanQueues,
    Command,
    Configure,
    Register,
    ReleaseAllocation,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    Tick,
    UpdateNode,
)
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Allocated, Ask, Fact
from remuda_core.limits import ALLOCATIONS_PER_PASS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, Timing
from remuda_core.shell import replay
from remuda_core.snapshot import restore, save
from remuda_core.wire import schema, snapshot_format
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.child import Child
from remuda_replication.log import START, Chain, Position
from remuda_replication.process import GC_THRESHOLDS

RM, PARTITION = "bench", "[bench]default"
QUEUES = [f"queue-{number:02}" for number in range(20)]
KEPT_MS = 3_600_000  # records of ended applications: a day has no room for the usual three
LENGTH = struct.Struct(">I")
WARM = 0.2  # of the facts


def configuration() -> Configuration:
    leaves = tuple(QueueSettings(name) for name in QUEUES)
    root = QueueSettings("root", parent=True, submit_acl="*", queues=leaves)
    return Configuration("1", (PartitionSettings("default", root),), timing=Timing(ended_ms=KEPT_MS))


class Day:
    """Applications come with twenty asks each, which are placed, run for some minutes and end; now and then a node
    changes."""

    def __init__(self, facts: int) -> None:
        self.core = Core(RM)
        self.random = random.Random(1)
        self.now_ms = 1_000_000_000
        self.wanted, self.written = facts, 0
        self.ends: list[tuple[int, str, str]] = []  # a heap: when which allocation of which application ends
        self.numbers = itertools.count(1)

    def commits(self) -> Iterator[log_pb2.Commit]:
        yield self.commit([Register(RM, configuration()), *(self.node(i) for i in range(500))])
        while self.written < self.wanted:
            self.now_ms += 1_000
            yield self.commit([*self.endings(), *self.beginnings(), *self.changes(), Tick(), CleanQueues()])

    def commit(self, asked: Iterable[Command]) -> log_pb2.Commit:
        commit, codec = log_pb2.Commit(), CommitCodec()
        for command in (*asked, Schedule(ALLOCATIONS_PER_PASS)):
            facts = self.core.handle(command, self.now_ms)
            decision = commit.decisions.add(command=type(command).__name__)
            codec.write(facts, decision)
            for fact in facts:
                self.note(fact)
                self.written += 1
        commit.now_ms = self.now_ms
        return commit

    def note(self, fact: Fact) -> None:
        if isinstance(fact, Allocated):
            lasts_ms = self.random.randint(60_000, 900_000)
            heapq.heappush(self.ends, (self.now_ms + lasts_ms, fact.application_id, fact.uuid))

    def endings(self) -> Iterator[Command]:
        while self.ends and self.ends[0][0] <= self.now_ms:
            _, application_id, uuid = heapq.heappop(self.ends)
            yield ReleaseAllocation(PARTITION, application_id, uuid, STOPPED_BY_RM)

    def beginnings(self) -> Iterator[Command]:
        for _ in range(self.random.randint(0, 2)):
            number = next(self.numbers)
            app_id, queue = f"app-{number}", f"root.{self.random.choice(QUEUES)}"
            yield SubmitApplication(PARTITION, app_id, queue, f"user-{number % 50}")
            need = {"vcore": self.random.randint(1, 4) * 500, "memory": self.random.randint(1, 8) << 29}
            for key in range(20):
                yield SubmitAsk(Ask(PARTITION, app_id, f"{app_id}-{key}", need, 1, tags={"name": "worker"}))

    def node(self, number: int, action: str = "CREATE", vcore: int = 96_000) -> UpdateNode:
        capacity = {"vcore": vcore, "memory": 256 << 30} if action in ("CREATE", "UPDATE") else None
        return UpdateNode(PARTITION, f"node-{number:05}", action, {"zone": "a"} if capacity else {}, capacity)

    def changes(self) -> Iterator[Command]:
        if self.random.random() < 0.2:
            number = self.random.randrange(500)
            yield self.node(number, "UPDATE", self.random.choice((64_000, 96_000)))
            yield self.node(number, self.random.choice(("DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE")))
        if self.random.random() < 0.001:
            yield Configure(configuration())


class Memory:
    """Of this process, MB: after a fifth of the facts, when as much ends as begins, and at the end."""

    def __init__(self, facts: int) -> None:
        self._warm_at = WARM * facts
        self._warm_mb = 0.0

    def after(self, facts: int) -> None:
        if not self._warm_mb and facts >= self._warm_at:
            self._warm_mb = self._now_mb()

    def grown(self, name: str) -> dict[str, float]:
        end_mb = self._now_mb()
        return {
            f"{name}_warm_mb": round(self._warm_mb, 1),
            f"{name}_end_mb": round(end_mb, 1),
            f"{name}_growth_percent": round(100 * (end_mb / self._warm_mb - 1), 1),
        }

    def _now_mb(self) -> float:
        return float(psutil.Process().memory_info().rss) / 1e6


def write_day(facts: int, file: BinaryIO) -> dict[str, float]:
    """How its memory grew."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    memory, day, tip = Memory(facts), Day(facts), START
    for commit in day.commits():
        commit.parent, commit.parent_hash = tip.seq, tip.hash
        payload = commit.SerializeToString()
        tip = Position(tip.seq + 1, digest_of(payload))
        file.write(LENGTH.pack(len(payload)) + payload)
        memory.after(day.written)
    return memory.grown("leader")


def payloads(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(LENGTH.size):
        yield file.read(LENGTH.unpack(head)[0])


def read_day(log: str, facts: int) -> dict[str, Any]:
    """In a process of its own."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    core, memory, chain = Core(RM), Memory(facts), Chain(START, schema.Commit)
    done, busy_s, began_s = 0, 0.0, time.process_time()
    with Path(log).open("rb") as file:
        for seq, payload in enumerate(payloads(file), 1):
            started = time.perf_counter()
            entry = chain.accept(Message("", payload, seq=seq))
            assert entry is not None, "the log is one chain"
            done += replay.apply(core, entry.commit)
            busy_s += time.perf_counter() - started
            memory.after(done)
    cpu_s = time.process_time() - began_s
    return {
        "case": "log",
        "facts": done,
        "facts_per_s": round(done / busy_s),
        "facts_per_cpu_s": round(done / cpu_s),
        **memory.grown("follower"),
        "applications": sum(len(p.applications) for p in core.state.partitions.values()),
        "allocations": sum(len(p.allocations) for p in core.state.partitions.values()),
    }


def measure_log(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log, leader = options.log or Path(folder) / "day.log", {}
        if not log.exists():
            with log.open("wb") as file:
                leader = write_day(options.facts, file)
        told = subprocess.run(
            [sys.executable, __file__, "--read", str(log), "--facts", str(options.facts)],
            check=True, stdout=subprocess.PIPE, env=os.environ,
        ).stdout  # fmt: skip
        found: dict[str, Any] = json.loads(told)
        return {**found, **leader, "log_mb": round(log.stat().st_size / 1e6, 1)}


def full_cluster(nodes: int, allocations: int) -> Core:
    core, now_ms = Core(RM), 1_000_000
    core.handle(Register(RM, configuration()), now_ms)
    room = -(-allocations // nodes)
    for number in range(nodes):
        capacity = {"vcore": room, "memory": room << 30}
        core.handle(UpdateNode(PARTITION, f"node-{number:05}", "CREATE", {"zone": "a"}, capacity), now_ms)
    for number in range(allocations // 100):
        app_id = f"app-{number}"
        core.handle(SubmitApplication(PARTITION, app_id, f"root.{QUEUES[number % len(QUEUES)]}", "alice"), now_ms)
        for key in range(100):
            ask = Ask(PARTITION, app_id, f"{app_id}-{key}", {"vcore": 1, "memory": 1 << 30}, tags={"name": "worker"})
            core.handle(SubmitAsk(ask), now_ms)
    while core.handle(Schedule(ALLOCATIONS_PER_PASS), now_ms):
        pass
    return core


async def measure_snapshot(options: argparse.Namespace) -> dict[str, Any]:
    core = full_cluster(options.nodes, options.allocations)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    started = time.perf_counter()
    child = Child(lambda: snapshot_format.write(RM, Position(1, b""), save(core.state)))
    stopped_s = time.perf_counter() - started
    payload = b"".join([part async for part in child.output()])
    written_s = time.perf_counter() - started
    await child.close()
    started = time.perf_counter()
    restored = restore(RM, snapshot_format.read(RM, payload)[1])
    restored_s = time.perf_counter() - started
    assert digest(restored) == digest(core.state), "the restored state is another"
    return {
        "case": "snapshot",
        "nodes": options.nodes,
        "allocations": sum(len(p.allocations) for p in core.state.partitions.values()),
        "process_mb": round(psutil.Process().memory_info().rss / 1e6),
        "snapshot_mb": round(len(payload) / 1e6, 1),
        "stopped_ms": round(1e3 * stopped_s, 1),
        "written_s": round(written_s, 2),
        "restored_s": round(restored_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--facts", type=int, default=5_000_000)
    parser.add_argument("--allocations", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--case", choices=("log", "snapshot"))
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_day(options.read, options.facts)))
        return
    if options.case != "snapshot":
        show(measure_log(options), options.json)
    if options.case != "log":
        show(asyncio.run(measure_snapshot(options)), options.json)


def show(found: dict[str, Any], as_json: bool) -> None:
    print(json.dumps(found) if as_json else "  ".join(f"{name} {value}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
