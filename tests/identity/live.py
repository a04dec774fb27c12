"""A period that is really lived through: the leader's own code (`remuda_core.shell.deciding`), messages of the inbox, a
chain of commits, and an RM of its own with delays, in virtual time. Independent of what a replay is made of.

The RM is deterministic: what arrives, and how long each allocation runs, follows from the seed and the names, whatever
the scheduler decides. So the same period can be lived twice, with two configurations.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.streams.history_check import digest_of
from remuda_core.core import Core
from remuda_core.shell.deciding import Deciding
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START, Position

RM = "rm-live"
NOON = 1_800_000_000_000
TO_INBOX_MS = 3
TO_RM_MS = 4
CONFIRM_MS = 2_000
MINUTE = 60_000
QUEUES = ("root.prod", "root.batch")
USERS = {"root.prod": ("alice", "bob"), "root.batch": ("carol", "dan", "eve")}


class Live:
    """`hours`: how long applications arrive. `restarts`: half-way the RM registers again, and reports what it has.
    `log`, `inbox`: what became durable."""

    def __init__(
        self, configuration: config_pb2.Configuration, seed: int, hours: float = 6.0, nodes: int = 12, apps: int = 90,
        restarts: bool = False,
    ) -> None:  # fmt: skip
        self.log: list[Message] = []
        self.inbox: list[Message] = []
        self.now_ms = NOON
        self._core = Core(RM)
        self._configuration = configuration
        self._deciding = Deciding(self._core, lambda: self.now_ms)
        self._due: list[tuple[int, int, inbox_pb2.Command]] = []
        self._numbers = count(1)
        self._sequences = count(1)
        self._position = START
        self._seed = seed
        self._random = random.Random(seed)
        self._restarts = restarts
        self._applications: dict[str, inbox_pb2.Command] = {}
        self._running: dict[str, si.Allocation] = {}
        self._waiting: dict[tuple[str, str], si.AllocationAsk] = {}
        self._asked: dict[tuple[str, str], si.AllocationAsk] = {}
        self._hours, self._nodes, self._apps = hours, nodes, apps
        self.end_ms = NOON + int(hours * 3_600_000 * 8)

    async def run(self) -> None:
        self._register()
        self._arrivals()
        while self._due or self._deciding.idle_s() is not None:
            idle_s = self._deciding.idle_s()
            times = [self._due[0][0]] if self._due else []
            if idle_s is not None:
                times.append(self.now_ms + max(1, int(idle_s * 1_000)))
            if min(times) > self.end_ms:
                break
            self.now_ms = max(self.now_ms, min(times))
            messages = deque[Message]()
            while self._due and self._due[0][0] <= self.now_ms:
                command = heappop(self._due)[2]
                self._note(command)
                messages.append(self._append_to_inbox(command))
            if self._restarts and self.now_ms >= NOON + int(self._hours * 1_800_000):
                self._restarts = False
                self._report()
            await self._commit(messages)
            while self._deciding.more_to_schedule or messages:
                self.now_ms += 1
                await self._commit(messages)

    async def _commit(self, messages: deque[Message]) -> None:
        before = self._core.state.inbox_seq
        commit, _ = await self._deciding.commit(messages, epoch=1)
        if commit.inbox_seq == before and not commit.decisions:
            return
        commit.parent, commit.parent_hash = self._position.seq, self._position.hash
        payload = commit.SerializeToString()
        seq = next(self._sequences)
        self.log.append(Message(subjects.log(RM), payload, {}, seq, self.now_ms * 1_000_000))
        self._position = Position(seq, digest_of(payload))
        for decision in commit.decisions:
            for fact in decision.facts:
                for delay_ms, command in self._reaction(fact):
                    self._send(self.now_ms + TO_RM_MS + delay_ms, command)

    def _append_to_inbox(self, command: inbox_pb2.Command) -> Message:
        message = Message(
            subjects.inbox(RM), command.SerializeToString(), {}, len(self.inbox) + 1, self.now_ms * 1_000_000
        )
        self.inbox.append(message)
        return message

    def _send(self, at_ms: int, command: inbox_pb2.Command) -> None:
        heappush(self._due, (at_ms + TO_INBOX_MS, next(self._numbers), command))

    # The RM

    def _note(self, command: inbox_pb2.Command) -> None:
        for new in command.application.new:
            self._applications[new.applicationID] = command
        for ask in command.allocation.asks:
            self._waiting[ask.applicationID, ask.allocationKey] = ask
        for release in command.allocation.releases.allocationsToRelease:
            self._running.pop(release.UUID, None)

    def _report(self) -> None:
        """Register again, and report nodes with what runs there, applications and asks that wait."""
        self._send(self.now_ms, self._registration())
        nodes = self._node_request()
        for node in nodes.node.nodes:
            node.existingAllocations.extend(one for one in self._running.values() if one.nodeID == node.nodeID)
        asks = inbox_pb2.Command()
        asks.allocation.asks.extend(self._waiting.values())
        reported = {one.applicationID for one in self._running.values()} | {name for name, _ in self._waiting}
        for name in sorted(reported):
            self._send(self.now_ms + 1, self._applications[name])
        self._send(self.now_ms + 2, nodes)
        self._send(self.now_ms + 3, asks)

    def _registration(self) -> inbox_pb2.Command:
        command = inbox_pb2.Command()
        command.register.rm_id = RM
        command.register.configuration.CopyFrom(self._configuration)
        return command

    def _node_request(self) -> inbox_pb2.Command:
        nodes = inbox_pb2.Command()
        for number in range(self._nodes):
            node = nodes.node.nodes.add(nodeID=f"n{number:02}", action=si.NodeInfo.CREATE)
            node.attributes["si/node-partition"] = f"[{RM}]default"
            node.schedulableResource.resources["vcore"].value = 16_000
            node.schedulableResource.resources["memory"].value = 64 * 2**30
        return nodes

    def _register(self) -> None:
        self._send(NOON, self._registration())
        self._send(NOON + 10, self._node_request())
        self._send(self.end_ms - 1_000, inbox_pb2.Command(node=si.NodeRequest()))  # the archive reaches to the end

    def _arrivals(self) -> None:
        chance = self._random
        for number in range(self._apps):
            at_ms = NOON + MINUTE + int(chance.random() * self._hours * 3_600_000)
            queue = QUEUES[number % len(QUEUES)]
            name = f"app-{number}"
            application = inbox_pb2.Command()
            new = application.application.new.add(applicationID=name, queueName=queue, partitionName=f"[{RM}]default")
            new.ugi.user = chance.choice(USERS[queue])
            self._send(at_ms, application)
            asks = inbox_pb2.Command()
            for key in range(chance.choice((2, 8, 20, 40))):
                ask = asks.allocation.asks.add(
                    applicationID=name, allocationKey=f"{name}-{key}", partitionName=f"[{RM}]default", maxAllocations=1
                )
                ask.preemptionPolicy.allowPreemptOther = queue == "root.prod"
                ask.preemptionPolicy.allowPreemptSelf = queue == "root.batch"
                ask.resourceAsk.resources["vcore"].value = chance.choice((1_000, 2_000, 4_000))
                ask.resourceAsk.resources["memory"].value = chance.choice((1, 4, 8)) * 2**30
                self._asked[name, ask.allocationKey] = ask
            self._send(at_ms + 50, asks)

    def _reaction(self, fact: log_pb2.Fact) -> Iterator[tuple[int, inbox_pb2.Command]]:
        kind = fact.WhichOneof("fact")
        if kind == "allocated":
            one = fact.allocated.allocation
            self._running[one.UUID] = one
            self._waiting.pop((one.applicationID, one.allocationKey), None)
            yield (
                self._runs_ms(one.applicationID, one.allocationKey),
                _release(one.applicationID, one.UUID, si.STOPPED_BY_RM),
            )
        elif kind == "release_requested":
            asked = fact.release_requested
            yield CONFIRM_MS, _release(asked.application_id, asked.uuid, asked.termination_type)
        elif kind == "allocation_released":
            ended = fact.allocation_released
            if ended.termination_type == si.PREEMPTED_BY_SCHEDULER:
                again = inbox_pb2.Command()
                again.allocation.asks.add().CopyFrom(self._asked[ended.application_id, ended.allocation_key])
                yield 0, again

    def _runs_ms(self, application: str, key: str) -> int:
        return int(1_000 * random.Random(f"{self._seed}/{application}/{key}").lognormvariate(6.3, 1.0))


def _release(application: str, uuid: str, termination_type: int) -> inbox_pb2.Command:
    command = inbox_pb2.Command()
    command.allocation.releases.allocationsToRelease.add(
        partitionName=f"[{RM}]default", applicationID=application, UUID=uuid, terminationType=termination_type
    )
    return command
