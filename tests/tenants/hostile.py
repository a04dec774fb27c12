"""An RM without the SDK: any bytes, headers and subjects that a NATS client could send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from remuda_bus import subjects
from remuda_proto.si.v1 import si_pb2 as si

# Far more than one of ours takes: an attack must not fail because its own client gives up.
PENDING_BYTES = 256 * 1024 * 1024
OPEN = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"


READ: dict[str, Callable[[bytes], Any]] = {
    "application": si.ApplicationResponse.FromString,
    "allocation": si.AllocationResponse.FromString,
    "node": si.NodeResponse.FromString,
    "dead_letter": si.EventRecord.FromString,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Of a request: the code as it came, and the reason."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    payload: bytes
    headers: Mapping[str, str]


async def ignore(_: Exception) -> None:
    """The server's complaints about what a hostile client does are its own business."""


@asynccontextmanager
async def raw_client(url: str, name: str = "hostile") -> AsyncIterator[Client]:
    client = await nats.connect(url, name=name, error_cb=ignore, pending_size=PENDING_BYTES, max_reconnect_attempts=-1)
    try:
        yield client
    finally:
        with contextlib.suppress(nats.errors.Error):
            await client.close()


class Hostile:
    """One rmID, on a connection it may share."""

    def __init__(self, client: Client, rm_id: str) -> None:
        self.rm_id = rm_id
        self.client = client
        self._jetstream = client.jetstream(timeout=30)

    async def ask(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None, within_s: float = 30.0
    ) -> Reply | Refusal | None:
        """A request; None: no answer."""
        try:
            reply = await self.client.request(subject, payload, timeout=within_s, headers=headers)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            return None
        told = reply.headers or {}
        if subjects.SERVICE_ERROR_CODE in told or subjects.SERVICE_ERROR in told:
            return Refusal(told.get(subjects.SERVICE_ERROR_CODE, ""), told.get(subjects.SERVICE_ERROR, ""))
        return Reply(reply.data, told)

    async def register(
        self, config: str = OPEN, extra: Mapping[str, str] | None = None, *, within_s: float = 30.0
    ) -> Reply | Refusal | None:
        """`extra`: its extraConfig."""
        request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=config, extraConfig=extra)
        return await self.ask(subjects.register(self.rm_id), request.SerializeToString(), within_s=within_s)

    async def send(self, kind: str, payload: bytes | Any, headers: dict[str, str] | None = None) -> int | None:
        """Into REQUESTS; its sequence, or None where the server refuses it."""
        raw = payload if isinstance(payload, bytes) else payload.SerializeToString()
        try:
            ack = await self._jetstream.publish(subjects.request(self.rm_id, kind), raw, headers=headers)
        except (nats.js.errors.Error, nats.errors.Error):
            return None
        return ack.seq

    async def nodes(self, *nodes: si.NodeInfo) -> int | None:
        """Those without an action are created."""
        for one in nodes:
            one.action = one.action or si.NodeInfo.CREATE
        return await self.send("node", si.NodeRequest(rmID=self.rm_id, nodes=nodes))

    async def submit(self, *new: si.AddApplicationRequest) -> int | None:
        return await self.send("application", si.ApplicationRequest(rmID=self.rm_id, new=new))

    async def asks(self, *asks: si.AllocationAsk) -> int | None:
        return await self.send("allocation", si.AllocationRequest(rmID=self.rm_id, asks=asks))

    async def configure(self, text: str) -> int | None:
        return await self.send("configuration", si.UpdateConfigurationRequest(rmID=self.rm_id, config=text))

    async def heartbeat(self, payload: bytes = b"", headers: dict[str, str] | None = None) -> None:
        await self.client.publish(subjects.heartbeat(self.rm_id), payload, headers=headers)

    async def answer(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> None:
        """Every question there, for ever, the same way."""

        async def arrived(question: Msg) -> None:
            await self.client.publish(question.reply, payload, headers=headers)

        await self.client.subscribe(subject, cb=arrived)

    async def callbacks(self, kind: str, holds: Any, within_s: float = 10.0) -> bool:
        """Whether a callback of that kind comes for which it holds, from the beginning of the stream; nothing is
        acknowledged."""
        read = READ[kind]
        subscription = await self._jetstream.subscribe(
            subjects.callback(self.rm_id, kind), ordered_consumer=True, stream=subjects.CALLBACKS.name
        )
        try:
            async with asyncio.timeout(within_s):
                async for message in subscription.messages:
                    if holds(read(message.data)):
                        return True
        except TimeoutError:
            pass
        finally:
            await subscription.unsubscribe()
        return False


@asynccontextmanager
async def hostile(url: str, rm_id: str = "hostile") -> AsyncIterator[Hostile]:
    """Connected, not registered."""
    async with raw_client(url) as client:
        yield Hostile(client, rm_id)
