"""A resource manager that means harm, with everything that the network lets it send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from google.protobuf.message import Message as Protobuf

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Message, Refused, Reply
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import node
from tests.fuzz.messages import Maker

from .story import Story

CONFIGURATION = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}, {name: b, submitacl: '*'}]}]"
LONG_CONFIGURATION = "# " + "long " * 40_000
BROKEN = (
    "",
    "{",
    "partitions: 7",
    "partitions: [{name: default, queues: [{name: a, limits: [1, 2]}]}]",
    LONG_CONFIGURATION,
)
REQUESTS: dict[str, type[Protobuf]] = {
    "node": si.NodeRequest,
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "configuration": si.UpdateConfigurationRequest,
}
ODD = ("", "0", "-1", "x", "7", "9" * 400, "1.5")
HEADERS = (subjects.REGISTRATION, subjects.LOG_SEQ, subjects.LOG_HASH, subjects.LOG_FACT, subjects.TRACEPARENT)
# The simulation's time is short: what is long or many is so in proportion.
LENGTHS = (0, 1, 100, 1_025, 20_000)
MANY = (0, 1, 2, 100, 500)


class HostileRm:
    """Never acknowledges anything. `resting`: it has stopped."""

    def __init__(self, rm_id: str, random: Random, story: Story) -> None:
        self.rm_id = rm_id
        self.resting = False
        self._registration = ""
        self._random = random
        self._story = story
        self._maker = Maker(random, rm_id, LENGTHS, MANY)
        self._pace_s = random.choice((0.01, 0.05))
        self._acts = random.sample(ACTS, random.randint(2, len(ACTS)))

    async def main(self, bus: Bus) -> None:
        await bus.serve(subjects.question(self.rm_id, "predicates"), self._answer, "predicates")
        await bus.serve(subjects.question(self.rm_id, "preemption_predicates"), self._answer, "preemption_predicates")
        await self._register(bus)
        await self._work(bus)
        while True:
            if self.resting:
                await asyncio.get_running_loop().create_future()
            await self._harm(self._random.choice(self._acts), bus)
            await asyncio.sleep(self._random.expovariate(1 / self._pace_s))

    async def _harm(self, act: Callable[[HostileRm, Bus], Awaitable[None]], bus: Bus) -> None:
        try:
            await act(self, bus)
        except (BusError, ValueError) as error:  # the server refuses, or the client's own checks do
            self._story.tell(f"was refused: {str(error)[:200]}")

    def _headers(self) -> dict[str, str]:
        if self._random.random() < 0.5:
            return {}
        return {name: self._random.choice(ODD) for name in self._random.sample(HEADERS, 2)}

    async def _answer(self, _: Message) -> bytes | Reply:
        match self._random.randrange(5):
            case 0:
                await asyncio.sleep(60)
            case 1:
                raise Refused("no" * 5_000, self._random.choice((-1, 0, 409, 10**9)))
            case 2:
                return b"\xff" * 1_000
            case 3:
                return Reply(b"", {subjects.REGISTRATION: "x"})
        return b""

    # Actions

    async def _register(self, bus: Bus) -> None:
        request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=CONFIGURATION)
        for name in ("predicates", "preemption_predicates"):
            request.extraConfig[name] = self._random.choice(("true", "false"))
        request.extraConfig["resync"] = self._random.choice(("report", "replay"))
        reply = await self._ask(bus, subjects.register(self.rm_id), request.SerializeToString())
        if reply is not None:
            self._registration = reply.headers.get(subjects.REGISTRATION, "")

    async def _ask(self, bus: Bus, subject: str, payload: bytes) -> Message | None:
        headers = self._headers() if self._random.random() < 0.2 else {}
        try:
            return await bus.request(subject, payload, headers, 15.0)
        except BusError as error:
            self._story.tell(f"was refused: {str(error)[:200]}")
            return None

    async def _register_constantly(self, bus: Bus) -> None:
        for _ in range(5):
            await self._register(bus)

    async def _register_wrongly(self, bus: Bus) -> None:
        request = self._maker.sensible(si.RegisterResourceManagerRequest(config=CONFIGURATION))
        self._maker.wrong(request, 2)
        await self._ask(bus, subjects.register(self.rm_id), request.SerializeToString())

    async def _deregister(self, bus: Bus) -> None:
        await self._ask(bus, subjects.deregister(self.rm_id), b"\xff")
        await self._register(bus)

    async def _work(self, bus: Bus) -> None:
        """Sensible things, never acknowledged; so that there is something under way."""
        nodes = [node(f"node-{number}", vcore=1_000, memory=1_000) for number in range(3)]
        for one in nodes:
            one.action = si.NodeInfo.CREATE
        await self._send(bus, "node", si.NodeRequest(rmID=self.rm_id, nodes=nodes).SerializeToString())
        for kind in ("application", "allocation"):
            await self._send(bus, kind, self._maker.sensible(REQUESTS[kind](), items=8).SerializeToString())

    async def _send(self, bus: Bus, kind: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            await bus.append(subjects.request(self.rm_id, kind), payload, headers)
        except BusError as error:
            self._story.tell(f"was refused: {str(error)[:200]}")

    async def _say_something_wrong(self, bus: Bus) -> None:
        kind = self._random.choice(("node", "application", "allocation"))
        message = self._maker.wrong(self._maker.sensible(REQUESTS[kind]()), self._random.randint(1, 4))
        await self._send(bus, kind, message.SerializeToString(), self._headers())

    async def _scramble(self, bus: Bus) -> None:
        kind = self._random.choice(list(REQUESTS))
        payload = self._maker.sensible(REQUESTS[kind]()).SerializeToString()
        await self._send(bus, kind, self._maker.scrambled(payload), self._headers())

    async def _configure(self, bus: Bus) -> None:
        """Good, broken, long; many at once."""
        for _ in range(self._random.choice((1, 10))):
            text = self._random.choice((CONFIGURATION, *BROKEN))
            update = si.UpdateConfigurationRequest(rmID=self.rm_id, config=text)
            await self._send(bus, "configuration", update.SerializeToString())

    async def _flood(self, bus: Bus) -> None:
        """Each ask of an application that does not exist is a refusal that is never acknowledged."""
        asks = [si.AllocationAsk(applicationID="none", allocationKey=f"k{number}") for number in range(500)]
        await self._send(bus, "allocation", si.AllocationRequest(rmID=self.rm_id, asks=asks).SerializeToString())

    async def _beat(self, bus: Bus) -> None:
        for _ in range(100):
            await bus.publish(subjects.heartbeat(self.rm_id), b"\xff", self._headers())

    async def _claim_another_past(self, bus: Bus) -> None:
        """Report a position that was never decided: such an RM is halted."""
        headers = {
            subjects.REGISTRATION: self._registration, subjects.LOG_SEQ: "1000000", subjects.LOG_HASH: "00" * 32,
        }  # fmt: skip
        await bus.publish(subjects.heartbeat(self.rm_id), b"", headers)

    async def _query(self, bus: Bus) -> None:
        payload = self._random.choice(
            (b"{}", b"[", b'{"limit": -1}', b'{"after": ["x", {}]}', self._random.randbytes(9))
        )
        await self._ask(
            bus, subjects.core_query(self.rm_id, self._random.choice(("nodes", "explain", "stats"))), payload
        )


ACTS: tuple[Callable[[HostileRm, Bus], Awaitable[None]], ...] = (
    HostileRm._work, HostileRm._say_something_wrong, HostileRm._scramble, HostileRm._configure, HostileRm._flood,
    HostileRm._beat, HostileRm._query, HostileRm._register_constantly, HostileRm._register_wrongly,
    HostileRm._deregister, HostileRm._claim_another_past,
)  # fmt: skip
