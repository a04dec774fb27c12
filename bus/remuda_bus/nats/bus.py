"""The verbs of the bus over NATS: puts the parts together. Use `connect`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Sequence

import structlog
from nats.aio.msg import Msg

from remuda_bus import limits, subjects
from remuda_bus.bus import (
    Consumer,
    ConsumerState,
    Entry,
    Handler,
    Headers,
    Listener,
    Message,
    Outgoing,
    Reader,
    Refused,
    Serving,
)
from remuda_bus.nats.access import Access
from remuda_bus.nats.buckets import Buckets
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.declare import declare
from remuda_bus.nats.feed import StreamReader
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.nats.micro import MicroService
from remuda_bus.nats.objects import Objects
from remuda_bus.nats.pull import DurableConsumer, make_consumer

log = structlog.get_logger()


class NatsBus:
    """`remuda_bus.bus.Bus`. One per process; all of it runs in the event loop that made it."""

    def __init__(self, connection: Connection, replicas: int) -> None:
        self._connection = connection
        self._jetstream = JetStream(connection)
        self._buckets = Buckets(self._jetstream)
        self._objects = Objects(self._jetstream)
        self._replicas = replicas
        self._micro: MicroService | None = None

    @property
    def max_payload(self) -> int:
        return self._connection.client.max_payload

    @property
    def connections(self) -> int:
        return self._connection.count

    @property
    def connected(self) -> bool:
        return self._connection.client.is_connected

    async def closed(self) -> str:
        """Returns, with the reason, when the connection has ended for good."""
        await self._connection.closed.wait()
        return self._connection.failure or "closed"

    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        await self._connection.send(subject, payload, headers)

    async def subscribe(self, subject: str, listener: Listener) -> None:
        async def arrived(message: Msg) -> None:
            try:
                await listener(Message(message.subject, message.data, message.headers or NO_HEADERS))
            except Exception:
                log.exception("a listener failed", subject=message.subject)

        await self._connection.until_up()
        await self._connection.client.subscribe(subject, cb=arrived)
        await self._connection.client.flush()

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        reply = await self._connection.ask(subject, payload, headers, timeout_s)
        answered = reply.headers or NO_HEADERS
        reason = answered.get(subjects.SERVICE_ERROR)
        if reason is not None:
            raise Refused(reason, int(answered.get(subjects.SERVICE_ERROR_CODE, "500")))
        return Message(subject, reply.data, answered)

    async def announce(self) -> None:
        """Show this process as a NATS micro service named like the connection (`nats micro ls`)."""
        if self._micro is None:
            name = re.sub(r"[^A-Za-z0-9_-]", "-", self._connection.name)
            self._micro = MicroService(self._connection.client, name)
            await self._micro.start()

    async def serve(self, subject: str, handler: Handler, name: str) -> Serving:
        """Requests are handled concurrently: one that waits does not hold up the next."""
        await self.announce()
        assert self._micro is not None
        return await self._micro.serve(subject, handler, name)

    async def append(
        self,
        subject: str,
        payload: bytes,
        headers: Headers | None = None,
        *,
        msg_id: str | None = None,
        expect_last: int | None = None,
        timeout_s: float = 5.0,
    ) -> int:
        return await self._jetstream.append(subject, payload, headers, msg_id, expect_last, timeout_s)

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        return await self._jetstream.append_all(messages, timeout_s)

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        reader = StreamReader(self._jetstream, stream, subject, after, digest)
        await reader.open()
        return reader

    async def consumer(
        self, stream: str, subject: str, durable: str, ack_wait_s: float = limits.ACK_WAIT_S
    ) -> Consumer:
        consumer = DurableConsumer(self._jetstream, stream, subject, durable, ack_wait_s)
        await consumer.open()
        return consumer

    async def make_consumer(self, stream: str, subject: str, durable: str, after: int, metadata: Headers) -> None:
        await make_consumer(self._jetstream, stream, subject, durable, after, metadata)

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consumer:
        consumer = DurableConsumer(self._jetstream, stream, "", durable, limits.ACK_WAIT_S, metadata)
        await consumer.open()
        return consumer

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        return await self._jetstream.consumer_state(stream, durable)

    async def last(self, stream: str, subject: str) -> Message | None:
        return await self._jetstream.last(stream, subject)

    async def message(self, stream: str, seq: int) -> Message | None:
        return await self._jetstream.message(stream, seq)

    async def first(self, stream: str, subject: str) -> Message | None:
        return await self._jetstream.first(stream, subject)

    async def end(self, stream: str) -> int:
        return await self._jetstream.end(stream)

    async def trim(self, stream: str, subject: str, below: int) -> None:
        await self._jetstream.trim(stream, subject, below)

    async def first_since(self, stream: str, subject: str, age_s: float) -> int | None:
        return await self._jetstream.first_since(stream, subject, age_s)

    async def fullness(self, stream: str) -> float:
        return await self._jetstream.fullness(stream)

    async def acknowledged(self, stream: str, durable: str) -> int:
        return await self._jetstream.acknowledged(stream, durable)

    async def get(self, bucket: str, key: str) -> Entry | None:
        return await self._buckets.get(bucket, key)

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        return await self._buckets.put(bucket, key, value, revision)

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        await self._buckets.delete(bucket, key, revision)

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        return self._buckets.watch(bucket)

    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        await self._objects.put(bucket, name, parts)

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        return await self._objects.get(bucket, name)

    async def objects(self, bucket: str) -> list[str]:
        return await self._objects.names(bucket)

    async def delete_object(self, bucket: str, name: str) -> None:
        await self._objects.delete(bucket, name)

    async def declare(self) -> None:
        await declare(self._jetstream, self._replicas)

    async def close(self) -> None:
        """What has been published is handed to the server first."""
        if self._micro is not None:
            self._micro.cancel()
        await self._connection.close()


async def connect(
    url: str, name: str, *, replicas: int = 1, timeout_s: float | None = None, access: Access | None = None
) -> NatsBus:
    """Connect, waiting for a server (for ever, or raise Unanswered after `timeout_s`), and saying so in the log.
    `name` is what the server shows for the connection; `replicas` is how many servers of a cluster keep each
    stream; `access` None: as the environment says. Raises ValueError when that names files that are none."""
    connection = Connection(url, name, access or Access.from_environment())
    await connection.open(timeout_s)
    return NatsBus(connection, replicas)
