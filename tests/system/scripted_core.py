"""A core that decides what a test tells it to: reads the inbox and writes facts into the log, over a real bus.

Where a test is about rmproxy or the SDK, it shows which commands arrive and makes every fact possible, also rare ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter

Fact = log_pb2.Fact
Command = inbox_pb2.Command


class ScriptedCore:
    """Leads one RM. `commands` are all it was sent; registrations and configurations are accepted unless `refuse` is
    set."""

    def __init__(self, bus: Bus, rm_id: str, writer: LogWriter) -> None:
        self.bus = bus
        self.rm_id = rm_id
        self.commands: list[Command] = []
        self.refuse = ""
        self.registrations = 0
        self._writer = writer
        self._lane = asyncio.Lock()
        self._changed = asyncio.Condition()

    @classmethod
    async def open(cls, bus: Bus, rm_id: str) -> ScriptedCore:
        reader = await LogReader.open(bus, rm_id)
        async for _ in reader.read_to_end():
            pass
        await reader.close()
        return cls(bus, rm_id, LogWriter(bus, rm_id, reader.position, reader.last_seq))

    async def run(self) -> None:
        reader = await self.bus.read(subjects.INBOX.name, subjects.inbox(self.rm_id))
        while True:
            for message in await reader.batch():
                command = Command.FromString(message.payload)
                self.commands.append(command)
                await self._answer(command, dict(message.headers))
            async with self._changed:
                self._changed.notify_all()

    async def until(self, holds: Callable[[list[Command]], Any], within_s: float = 10.0) -> None:
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(lambda: holds(self.commands))

    async def decide(self, *facts: Fact, correlation_id: str = "", headers: dict[str, str] | None = None) -> int:
        """One commit of one decision; its stream sequence."""
        decision = log_pb2.Decision(command="Scripted", facts=facts, correlation_id=correlation_id)
        async with self._lane:
            commit = log_pb2.Commit(decisions=[decision], now_ms=int(time.time() * 1_000))
            return (await self._writer.append(commit, headers)).seq

    async def _answer(self, command: Command, headers: dict[str, str]) -> None:
        match command.WhichOneof("command"):
            case "register":
                fact = Fact(registration_refused=log_pb2.RegistrationRefused(rm_id=self.rm_id, reason=self.refuse))
                if not self.refuse:
                    self.registrations += 1
                    registered = log_pb2.RmRegistered(
                        rm_id=self.rm_id,
                        version=command.register.version,
                        policy_group=command.register.policy_group,
                        registration=self.registrations,
                        extra_config=command.register.extra_config,
                        resync=command.register.extra_config.get("resync", "report"),
                    )
                    fact = Fact(rm_registered=registered)
                await self.decide(fact, correlation_id=command.correlation_id, headers=headers)
            case "rm_connection" if command.correlation_id:
                stopped = log_pb2.RmStopped(reason=command.rm_connection.reason, deregistered=True)
                await self.decide(Fact(rm_stopped=stopped), correlation_id=command.correlation_id, headers=headers)
            case "configure":
                checksum = command.configure.configuration.checksum
                fact = Fact(configuration_refused=log_pb2.ConfigurationRefused(checksum=checksum, reason=self.refuse))
                if not self.refuse:
                    fact = Fact(configuration_applied=log_pb2.ConfigurationApplied(checksum=checksum))
                await self.decide(fact, correlation_id=command.correlation_id, headers=headers)


@asynccontextmanager
async def scripted_core(url: str, rm_id: str) -> AsyncIterator[ScriptedCore]:
    bus = await connect(url, "scripted-core", timeout_s=5)
    core = await ScriptedCore.open(bus, rm_id)
    task = asyncio.create_task(core.run())
    try:
        yield core
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)  # what it has left to do in the background is begun
        await bus.close()


def allocated(key: str, app: str = "app-1", rm_id: str = "rm-1") -> Fact:
    allocation = si.Allocation(
        allocationKey=key,
        UUID=f"u-{key}",
        applicationID=app,
        nodeID="n1",
        partitionName=f"[{rm_id}]default",
        resourcePerAlloc=si.Resource(resources={"vcore": si.Quantity(value=100), "memory": si.Quantity(value=2**30)}),
    )
    return Fact(allocated=log_pb2.Allocated(allocation=allocation))


def release_requested(key: str, termination_type: si.TerminationType.ValueType, rm_id: str = "rm-1") -> Fact:
    return Fact(
        release_requested=log_pb2.ReleaseRequested(
            partition=f"[{rm_id}]default",
            application_id="app-1",
            allocation_key=key,
            uuid=f"u-{key}",
            termination_type=termination_type,
            message="make room",
        )
    )
