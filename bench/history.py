"""How long a state of the past takes: `python bench/history.py [--facts 208000] [--running 20000]`.

An hour of a day with five million facts, behind one snapshot: the worst moment is the end of the hour. The facts are
allocations and releases, decided by the leader's own code.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from remuda.history.exact import compare
from remuda.history.past import Past
from remuda_archive.holdings import segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.streams.history_check import digest_of
from remuda_config import load
from remuda_core.core import Core
from remuda_core.shell.deciding import Deciding
from remuda_core.shell.machine import CoreMachine
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START, Position
from tests.identity import recorder

RM = "bench"
PARTITION = f"[{RM}]default"
NOON = 1_800_000_000_000
AT_ONCE = 2_000
QUEUES = 'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]'


class Writer:
    """Decides and writes commits of a log, with the inbox that they have read."""

    def __init__(self) -> None:
        self.core = Core(RM)
        self.log: list[Message] = []
        self.inbox: list[Message] = []
        self.position = START
        self.facts = 0
        self.now_ms = NOON
        self.held: deque[list[str]] = deque()
        self._deciding = Deciding(self.core, lambda: self.now_ms)

    async def send(self, command: inbox_pb2.Command) -> list[str]:
        """Returns the UUIDs of what was allocated."""
        self.inbox.append(Message(subjects.inbox(RM), command.SerializeToString(), {}, len(self.inbox) + 1, 0))
        messages, uuids = deque([self.inbox[-1]]), list[str]()
        while messages or self._deciding.more_to_schedule:
            self.now_ms += 20
            commit, _ = await self._deciding.commit(messages, 1)
            if not commit.decisions:
                continue
            commit.parent, commit.parent_hash = self.position.seq, self.position.hash
            payload = commit.SerializeToString()
            self.position = Position(len(self.log) + 1, digest_of(payload))
            self.log.append(Message(subjects.log(RM), payload, {}, self.position.seq, 0))
            facts = [fact for decision in commit.decisions for fact in decision.facts]
            self.facts += len(facts)
            uuids += [fact.allocated.allocation.UUID for fact in facts if fact.HasField("allocated")]
        return uuids

    async def begin(self, nodes: int) -> None:
        command = inbox_pb2.Command()
        command.register.rm_id = RM
        command.register.configuration.CopyFrom(load(QUEUES))
        await self.send(command)
        command = inbox_pb2.Command()
        for number in range(nodes):
            node = command.node.nodes.add(nodeID=f"n{number}", action=si.NodeInfo.CREATE)
            node.attributes["si/node-partition"] = PARTITION
            node.schedulableResource.resources["vcore"].value = 64_000
        await self.send(command)

    async def allocate(self, number: int) -> None:
        """An application with AT_ONCE allocations of its own."""
        command = inbox_pb2.Command()
        new = command.application.new.add(applicationID=f"app-{number}", queueName="root.a", partitionName=PARTITION)
        new.ugi.user = f"user-{number % 50}"
        await self.send(command)
        command = inbox_pb2.Command()
        for key in range(AT_ONCE // 100):
            ask = command.allocation.asks.add(
                applicationID=f"app-{number}", allocationKey=f"k{key}", partitionName=PARTITION, maxAllocations=100
            )
            ask.resourceAsk.resources["vcore"].value = 1_000
        self.held.append(await self.send(command))

    async def release(self, number: int) -> None:
        command = inbox_pb2.Command()
        for uuid in self.held.popleft():
            command.allocation.releases.allocationsToRelease.add(
                partitionName=PARTITION, applicationID=f"app-{number}", UUID=uuid, terminationType=si.STOPPED_BY_RM
            )
        await self.send(command)


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store, writer = Store.open(directory), Writer()
        await writer.begin(options.running // 50 + AT_ONCE // 50)
        apps = options.running // AT_ONCE
        for number in range(apps):
            await writer.allocate(number)
        snapshot = b"".join(CoreMachine(writer.core).save(writer.position))
        await recorder.write_snapshot(store, RM, writer.position.seq, writer.now_ms, snapshot)
        before, number = writer.facts, apps
        while writer.facts - before < options.facts:
            await writer.release(number - apps)
            await writer.allocate(number)
            number += 1
        recorder.COMMITS_OF_A_SEGMENT, size = 1_000_000, 0
        for header, records in recorder.segments(RM, writer.log, writer.inbox):
            content = encode(header, records)
            size += len(content)
            await store.put(segment_name(RM, header.since_ms, header.first, header.end.seq), content)
        print(f"{writer.facts - before:,} facts behind a snapshot of {options.running:,} allocations "
              f"({len(snapshot) / 1e6:.1f} MB), segment of {size / 1e6:.1f} MB")  # fmt: skip
        began = time.monotonic()
        restored = await (await Past.open(store, RM)).restore()
        print(f"state at the last commit: {time.monotonic() - began:.2f} s, {restored.commits:,} commits")
        began = time.monotonic()
        past = await Past.open(store, RM)
        async for begin, end in past.stretches():
            print(f"decided again: {await compare(past, begin, end)}, {time.monotonic() - began:.2f} s")
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure how long a state of the past takes.")
    parser.add_argument("--facts", type=int, default=208_000)
    parser.add_argument("--running", type=int, default=20_000)
    asyncio.run(main(parser.parse_args()))
