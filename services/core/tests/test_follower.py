"""Two cores take turns at leading one log, each on the state it has followed with."""

from __future__ import annotations

import asyncio

from remuda_bus.memory import MemoryBus
from remuda_core import commands
from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import built_in
from remuda_core.shell.machine import CoreMachine
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogWriter, Position
from remuda_replication.standby import Follower

RM = "rm-1"
PARTITION = f"[{RM}]default"


class Process:
    """A core that follows until it is told to lead."""

    def __init__(self, bus: MemoryBus) -> None:
        self.core = Core(RM)
        self.follower = Follower(bus, CoreMachine(self.core))

    @property
    def indexed(self) -> bool:
        return bool(self.core.index.partitions)

    async def lead(self, now_ms: int, *asked: commands.Command) -> Position:
        await self.follower.catch_up()
        writer: LogWriter = await self.follower.close()
        commit = log_pb2.Commit(now_ms=now_ms)
        decision = commit.decisions.add(command="Test")
        CommitCodec().write(self.core.handle_all((*asked, commands.Schedule(10)), now_ms), decision)
        return await writer.append(commit)


async def test_taking_turns() -> None:
    bus = MemoryBus()
    leader, standby = Process(bus), Process(bus)
    await leader.follower.open(Position())
    await standby.follower.open(Position())
    node = commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 1_000})
    submit = commands.SubmitApplication(PARTITION, "app-1", "root.a", "alice", tags={"namespace": "a"})
    asked: tuple[commands.Command, ...] = (commands.Register(RM, built_in()), node, submit)
    for turn in range(6):
        following = asyncio.create_task(standby.follower.follow())
        position = await leader.lead(1_000 * (turn + 1), *asked)
        assert leader.indexed
        async with asyncio.timeout(5):
            while standby.follower.position != position:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)
        following.cancel()
        assert not standby.indexed, "a follower does arithmetic only"
        assert digest(standby.core.state) == digest(leader.core.state)
        check(standby.core.state, standby.core.index)
        await leader.follower.open(position)
        assert not leader.indexed
        leader, standby = standby, leader
        asked = (commands.SubmitAsk(Ask(PARTITION, "app-1", f"k{turn}", {"vcore": 1})),)
    (partition,) = leader.core.state.partitions.values()
    assert len(partition.allocations) == 5
