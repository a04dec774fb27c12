"""How long a replay takes, and how much memory: `python bench/what_if.py --trace FOLDER --times 8`, `--asks 200000`.

The archive of the period is made by the leader's own code: of the openb trace, each pod and node so many times, or of
asks that come one by one and run for an hour. Then `remuda replay` reads it and plays it unchanged: once with every
commit decided again, once with one stretch of 24, and once more so with one change. From these follow the times of
reading and of playing. The figures are seconds of a processor, of which a loaded machine takes up to three times as
many, and the most memory of one process.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import resource
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from remuda_archive.holdings import segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.streams.history_check import digest_of
from remuda_config import load
from remuda_core.core import Core
from remuda_core.shell.deciding import Deciding
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START, Position
from tests.identity import recorder

RM = "bench"
PARTITION = f"[{RM}]default"
NOON = 1_800_000_000_000
QUEUES = 'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]'
# Of an application without a pod of a trace: so many asks.
ASKS_OF_APPLICATION = 100
# The command, with variants at the priority of the benchmark.
RUN = (
    "from remuda.history import replay; from remuda_replication import child;"
    "replay.NICENESS = child.CHILD_NICENESS = 0; from remuda.main import app; app()"
)
# Nodes of one request.
AT_ONCE = 500
Amounts = dict[str, int]
Pod = tuple[float, str, str, Amounts, float]  # begins at, application, key, resource, runs for; in s


class Period:
    """Lives through a period: what arrives, and what ends as long after it began as the pod says."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.inbox: list[Message] = []
        self.now_ms = NOON
        self.most_alive = 0
        self._core = Core(RM)
        self._deciding = Deciding(self._core, lambda: self.now_ms)
        self._position = START
        self._due: list[tuple[int, int, inbox_pb2.Command]] = []
        self._numbers = count()
        self._runs_ms: dict[tuple[str, str], int] = {}
        self._left: dict[str, int] = {}

    async def live(self, nodes: list[Amounts], pods: Iterator[Pod]) -> None:
        command = inbox_pb2.Command()
        command.register.rm_id = RM
        command.register.configuration.CopyFrom(load(QUEUES))
        await self._send(command)
        for begin in range(0, len(nodes), AT_ONCE):
            command = inbox_pb2.Command()
            for number, capacity in enumerate(nodes[begin : begin + AT_ONCE], begin):
                node = command.node.nodes.add(nodeID=f"n{number}", action=si.NodeInfo.CREATE)
                node.attributes["si/node-partition"] = PARTITION
                for name, amount in capacity.items():
                    node.schedulableResource.resources[name].value = amount
            await self._send(command)
        upcoming = next(pods, None)
        while upcoming is not None or self._due:
            at_ms = NOON + int(upcoming[0] * 1_000) if upcoming is not None else self._due[0][0]
            while self._due and self._due[0][0] <= at_ms:
                self.now_ms = max(self.now_ms, self._due[0][0])
                await self._send(heappop(self._due)[2])
            if upcoming is not None:
                self.now_ms = max(self.now_ms, at_ms)
                await self._arrives(upcoming)
                upcoming = next(pods, None)

    async def _arrives(self, pod: Pod) -> None:
        _, application, key, amounts, runs_s = pod
        if application not in self._left:
            command = inbox_pb2.Command()
            new = command.application.new.add(
                applicationID=application, queueName="root.a", partitionName=PARTITION
            )  # fmt: skip
            new.ugi.user = f"user-{sum(application.encode()) % 50}"
            await self._send(command)
            self._left[application] = 0
        self._left[application] += 1
        self._runs_ms[application, key] = int(runs_s * 1_000)
        command = inbox_pb2.Command()
        ask = command.allocation.asks.add(
            applicationID=application, allocationKey=key, partitionName=PARTITION, maxAllocations=1
        )
        for name, amount in amounts.items():
            ask.resourceAsk.resources[name].value = amount
        await self._send(command)

    async def _send(self, command: inbox_pb2.Command) -> None:
        payload = command.SerializeToString()
        self.inbox.append(Message(subjects.inbox(RM), payload, {}, len(self.inbox) + 1, 0))
        messages = deque([self.inbox[-1]])
        while messages or self._deciding.more_to_schedule:
            commit, _ = await self._deciding.commit(messages, 1)
            if not commit.decisions and not messages:
                continue
            commit.parent, commit.parent_hash = self._position.seq, self._position.hash
            packed = commit.SerializeToString()
            self._position = Position(len(self.log) + 1, digest_of(packed))
            self.log.append(Message(subjects.log(RM), packed, {}, self._position.seq, 0))
            for decision in commit.decisions:
                for fact in decision.facts:
                    if fact.HasField("allocated"):
                        self._starts(fact.allocated.allocation)
        self.most_alive = max(self.most_alive, len(self._runs_ms))

    def _starts(self, one: si.Allocation) -> None:
        command = inbox_pb2.Command()
        command.allocation.releases.allocationsToRelease.add(
            partitionName=PARTITION, applicationID=one.applicationID, UUID=one.UUID, terminationType=si.STOPPED_BY_RM
        )
        ends_ms = self.now_ms + self._runs_ms.pop((one.applicationID, one.allocationKey))
        heappush(self._due, (ends_ms, next(self._numbers), command))


def of_trace(folder: Path, times: int) -> tuple[list[Amounts], Iterator[Pod]]:
    with (folder / "openb_node_list_all_node.csv").open() as file:
        rows = list(csv.DictReader(file))
    nodes = [
        {"vcore": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * 2**20, "gpu": int(row["gpu"])}
        for _ in range(times)
        for row in rows
    ]
    with (folder / "openb_pod_list_default.csv").open() as file:
        pods = sorted(csv.DictReader(file), key=lambda row: int(row["creation_time"]))
    begin = int(pods[0]["creation_time"])

    def each() -> Iterator[Pod]:
        for row in pods:
            amounts = {"vcore": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * 2**20}
            if int(row["num_gpu"]):
                amounts["gpu"] = int(row["num_gpu"])
            for copy in range(times):
                at_s = int(row["creation_time"]) - begin
                runs_s = max(1, int(row["deletion_time"]) - int(row["creation_time"]))
                yield at_s, f"{row['name']}-{copy}", "pod", amounts, runs_s

    return nodes, each()


def of_asks(asks: int, alive: int) -> tuple[list[Amounts], Iterator[Pod]]:
    """So many asks, of which about `alive` run at a time, for an hour each, on half as many processors again."""

    def each() -> Iterator[Pod]:
        for number in range(asks):
            application, key = divmod(number, ASKS_OF_APPLICATION)
            runs_s = 1_800 + number * 7_919 % 3_600
            yield number * 3_600 / alive, f"app-{application}", f"k{key}", {"vcore": 1_000}, runs_s

    return [{"vcore": 32_000}] * (alive * 3 // 64 + 1), each()


async def write(period: Period, directory: str) -> int:
    store, size = Store.open(directory), 0
    recorder.COMMITS_OF_A_SEGMENT = 5_000
    for header, records in recorder.segments(RM, period.log, period.inbox):
        content = encode(header, records)
        size += len(content)
        await store.put(segment_name(RM, header.since_ms, header.first, header.end.seq), content)
    return size


def main(options: argparse.Namespace) -> None:
    nodes, pods = of_trace(options.trace, options.times) if options.trace else of_asks(options.asks, options.alive)
    period = Period()
    asyncio.run(period.live(nodes, pods))
    commits = len(period.log)
    with tempfile.TemporaryDirectory() as directory:
        size = asyncio.run(write(period, directory))
        print(f"{len(nodes):,} nodes, {commits:,} commits, archive of {size / 1e6:.1f} MB", flush=True)
        del period, pods
        argv = [sys.executable, "-c", RUN, "replay", RM, "--archive", directory, "--json"]
        asks, took, before = 0, list[float](), resource.getrusage(resource.RUSAGE_CHILDREN)
        for extra in ([], ["--every", "24"], ["--every", "24", "--nodes", "+1:vcore=64"]):
            printed = subprocess.run([*argv, *extra], check=True, capture_output=True).stdout
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            report = json.loads(printed)
            asks = report["unchanged"]["waits"]["all"][""]["count"]
            took.append(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime)
            print(
                f"{' '.join(extra) or 'all decided again'}: {asks:,} asks, {took[-1]:.1f} s of a processor, "
                f"{used.ru_maxrss / 1024:.0f} MB; {report['identity']['different']} commits differ",
                flush=True,
            )
            before = used
        decided, read, played = took[0] - took[2] + took[1], 2 * took[1] - took[2], took[2] - took[1]
        for what, seconds in (("read, all decided again", decided), ("read", read), ("played", played)):
            print(f"{what}: {seconds:.1f} s, {asks / seconds:,.0f} asks a second of a processor")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure how long a replay takes.")
    parser.add_argument("--trace", type=Path, help="the folder of the openb trace")
    parser.add_argument("--times", type=int, default=8, help="each pod and each node of the trace so many times")
    parser.add_argument("--asks", type=int, default=100_000, help="without a trace: so many asks")
    parser.add_argument("--alive", type=int, default=1_000, help="of which so many run at a time")
    main(parser.parse_args())
