"""The verbs of the bus over NATS, delegated to the modules of this room. `connect` returns a `NatsBus`."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from typing import TypeVar

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from remuda_bus import health, limits, metrics, subjects
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
    StreamState,
)
from remuda_bus.nats.access import Access
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.declare import changed_settings, declare, described, restore_settings
from remuda_bus.nats.durable_consumer import DurableConsumer, create_consumer, delete_consumer
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.nats.key_value_buckets import KeyValueBuckets
from remuda_bus.nats.micro_service import MicroService
from remuda_bus.nats.object_buckets import ObjectBuckets
from remuda_bus.nats.stream_reader import ReaderGroup, StreamReader
from remuda_bus.untrusted import Malformed, number_in, shortened

log = structlog.get_logger()

INTERNAL = 500


class NatsBus:
    """The bus over NATS. A process has one bus, which runs in the event loop in which it was created."""

    def __init__(self, connection: Connection, replicas: int) -> None:
        self._connection = connection
        self._jetstream = JetStream(connection)
        self._buckets = KeyValueBuckets(self._jetstream)
        self._objects = ObjectBuckets(self._jetstream)
        self._reader_groups: dict[str, ReaderGroup] = {}  # by stream
        self._replicas = replicas
        self._micro: MicroService | None = None

    @property
    def max_payload(self) -> int:
        return self._connection.client.max_payload

    @property
    def connection_count(self) -> int:
        return self._connection.count

    @property
    def connected(self) -> bool:
        return self._connection.client.is_connected

    async def closed(self) -> str:
        """Wait until the connection is closed for good. Returns the reason."""
        await self._connection.closed.wait()
        return self._connection.failure or "closed"

    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        await self._connection.send(subject, payload, headers)

    async def subscribe(self, subject: str, listener: Listener) -> None:
        kind = metrics.listener_label(subject)

        async def arrived(message: Msg) -> None:
            try:
                await listener(Message(message.subject, message.data, message.headers or NO_HEADERS))
            except Exception as error:
                log.exception("a listener failed", subject=message.subject)
                metrics.LISTENER_ERRORS.labels(kind).inc()
                health.PROCESS_HEALTH.listener_failed(kind, message.subject, error)

        await self._connection.until_up()
        await self._connection.client.subscribe(subject, cb=arrived)
        await self._connection.client.flush()

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        reply = await self._connection.ask(subject, payload, headers, timeout_s)
        answered = reply.headers or NO_HEADERS
        if subjects.SERVICE_ERROR in answered or subjects.SERVICE_ERROR_CODE in answered:
            raise _refusal(answered)
        return Message(subject, reply.data, answered)

    async def request_all(
        self, subject: str, payload: bytes = b"", *, within_s: float, quiet_s: float | None = None
    ) -> list[Message]:
        return [
            Message(subject, reply.data, reply.headers or NO_HEADERS)
            for reply in await self._connection.ask_all(subject, payload, within_s, quiet_s)
        ]

    async def announce(self, instance: str = "") -> None:
        """Register this process as a NATS micro service with the name of the connection (`nats micro ls`). `instance`:
        the name of the process, for its metadata."""
        if self._micro is None:
            name = re.sub(r"[^A-Za-z0-9_-]", "-", self._connection.name)
            self._micro = MicroService(self._connection.client, name, instance)
            await self._micro.start()

    async def serve(
        self,
        subject: str,
        handler: Handler,
        name: str,
        answers: Callable[[], bool] | None = None,
        *,
        mine: Callable[[str], bool] | None = None,
        at_once: int = 0,
    ) -> Serving:
        """Answer requests, as `Bus.serve`. Requests are handled concurrently: a slow request does not delay the
        next."""
        await self.announce()
        assert self._micro is not None
        return await self._micro.serve(subject, handler, name, answers, mine, at_once)

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
        if stream not in self._reader_groups:
            self._reader_groups[stream] = ReaderGroup(self._jetstream, stream)
        single = not ("*" in subject or subject.endswith(">"))
        group = self._reader_groups[stream] if single else None
        return await _opened(StreamReader(self._jetstream, stream, subject, after, digest, group))

    async def consumer(
        self, stream: str, subject: str, durable: str, ack_wait_s: float = limits.ACK_WAIT_S
    ) -> Consumer:
        return await _opened(DurableConsumer(self._jetstream, stream, subject, durable, ack_wait_s))

    async def create_consumer(self, stream: str, subject: str, durable: str, after: int, metadata: Headers) -> None:
        await create_consumer(self._jetstream, stream, subject, durable, after, metadata)

    async def delete_consumer(self, stream: str, durable: str) -> None:
        await delete_consumer(self._jetstream, stream, durable)

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consumer:
        return await _opened(DurableConsumer(self._jetstream, stream, "", durable, limits.ACK_WAIT_S, metadata))

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        return await self._jetstream.consumer_state(stream, durable)

    async def last_message(self, stream: str, subject: str) -> Message | None:
        return await self._jetstream.last_message(stream, subject)

    async def message_at(self, stream: str, seq: int) -> Message | None:
        return await self._jetstream.message_at(stream, seq)

    async def first_message(self, stream: str, subject: str) -> Message | None:
        return await self._jetstream.first_message(stream, subject)

    async def last_sequence(self, stream: str) -> int:
        return await self._jetstream.last_sequence(stream)

    async def trim(self, stream: str, subject: str, below: int) -> None:
        await self._jetstream.trim(stream, subjects.check_one_rm(subject), below)

    async def trim_all(self, stream: str, below: int) -> None:
        await self._jetstream.trim(stream, ">", below)

    async def delete_messages(self, stream: str, seqs: Sequence[int]) -> None:
        await self._jetstream.delete_messages(stream, seqs)

    async def first_sequence_since(self, stream: str, subject: str, age_s: float) -> int | None:
        return await self._jetstream.first_sequence_since(stream, subject, age_s)

    async def fullness(self, stream: str) -> float:
        return await self._jetstream.fullness(stream)

    async def stream_state(self, stream: str) -> StreamState:
        return await self._jetstream.stream_state(stream)

    async def round_trip_s(self) -> float | None:
        """The time of a ping to the server and back, in s; None: the server has not answered."""
        began = time.perf_counter()
        try:
            await self._connection.client.flush(limits.ROUND_TRIP_TIMEOUT_S)
        except (NatsError, OSError, TimeoutError):
            return None
        return time.perf_counter() - began

    async def message_count(self, stream: str, subject: str) -> int:
        return await self._jetstream.message_count(stream, subject)

    async def acknowledged_sequence(self, stream: str, durable: str) -> int:
        return await self._jetstream.acknowledged_sequence(stream, durable)

    async def get(self, bucket: str, key: str) -> Entry | None:
        return await self._buckets.get(bucket, key)

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        return await self._buckets.put(bucket, key, value, revision)

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        await self._buckets.delete(bucket, key, revision)

    async def entries(self, bucket: str) -> list[Entry]:
        return await self._buckets.entries(bucket)

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        return self._buckets.watch(bucket)

    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        await self._objects.put(bucket, name, parts)

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        return await self._objects.get(bucket, name)

    async def object_names(self, bucket: str) -> list[str]:
        return await self._objects.names(bucket)

    async def delete_object(self, bucket: str, name: str) -> None:
        await self._objects.delete(bucket, name)

    async def declare(self) -> None:
        await declare(self._jetstream, self._replicas)

    async def keep_settings(self) -> dict[str, str]:
        """Restore the declared settings of streams that were changed. Returns, by stream, a description of the settings
        that could not be restored. Raises BusError."""
        kept: dict[str, str] = {}
        for name, changed in (await changed_settings(self._jetstream)).items():
            try:
                await restore_settings(self._jetstream, name, changed)
            except Refused as refusal:
                kept[name] = f"{described(changed)} expected, and cannot be put back: {refusal}"
            else:
                log.error("somebody had changed a stream: its settings are put back", stream=name, settings=changed)
        return kept

    async def close(self) -> None:
        """Close the connection, after the published messages were sent to the server."""
        if self._micro is not None:
            self._micro.cancel()
        await self._connection.close()


def _refusal(answered: Headers) -> Refused:
    reason = shortened(answered.get(subjects.SERVICE_ERROR, ""), limits.REASON_CHARACTERS)
    try:
        code = number_in(answered, subjects.SERVICE_ERROR_CODE, INTERNAL, most=limits.LARGEST_ERROR_CODE)
    except Malformed as problem:
        return Refused(f"{reason} ({problem})", INTERNAL)
    return Refused(reason, code)


Opened = TypeVar("Opened", StreamReader, DurableConsumer)


async def _opened(reader: Opened) -> Opened:
    """Open it. A reader that is given up meanwhile is closed: it would go on in the background, and a consumer would
    take messages that nobody hears."""
    try:
        await reader.open()
    except BaseException:
        await reader.close()
        raise
    return reader


async def connect(
    url: str, name: str, *, replicas: int = 1, timeout_s: float | None = None, access: Access | None = None
) -> NatsBus:
    """Connect to a NATS server and return the bus.

    `url`: one or several servers, separated by commas. `name`: the name of the connection, shown by the server.
    `replicas`: the number of servers of a cluster that keep each stream. `timeout_s`: raise Unanswered after so long;
    None: wait for a server without end, and log the wait. `access`: the credentials; None: `Access.from_environment()`.
    Raises ValueError when a file of the credentials does not exist, or the URL names no server."""
    connection = Connection(url, name, access or Access.from_environment())
    await connection.open(timeout_s)
    return NatsBus(connection, replicas)
