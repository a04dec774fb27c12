"""The network between the processes and one server: each process has a `Connection`, which is its bus.

A call is a message to the server, the effect there, and an answer. Each way takes time, and either message may be lost.
What a connection sends to one stream or bucket arrives in that order; everything else may overtake. A connection can be
cut for a while, and with its process it ends: what had been sent may still arrive, nothing comes back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from remuda_bus import subjects
from remuda_bus.bus import (
    BusError,
    ChangedPast,
    Entry,
    Handler,
    Headers,
    Listener,
    Message,
    NobodyListens,
    Outgoing,
    Refused,
    Reply,
    Unanswered,
)
from remuda_bus.memory import MemoryBus, matches

from .story import Story
from .weather import Fate, Weather

if TYPE_CHECKING:
    from .process import Process

ANSWER_WITHIN_S = 5.0
ACK_WAIT_S = 30.0
RETRY_S = 0.2
APART_S = 1e-6  # timers that are due at once come in any order
Work = Callable[[], Coroutine[Any, Any, Any]]


class _NoAnswer(Exception):
    pass


class Network:
    """`judges`: off, the server takes what it should refuse, an append whose sender expected another to be the last,
    and does not say so. Then the chain alone tells leaders apart."""

    def __init__(self, server: MemoryBus, weather: Weather, random: Random, story: Story) -> None:
        self.server = server
        self.weather = weather
        self.random = random
        self.story = story
        self.judges = True
        self.endpoints: list[tuple[str, Handler, Connection]] = []
        self.listeners: list[tuple[str, Arrivals, Connection]] = []
        self.own = Context()  # of what no process does

    def later(self, delay_s: float, work: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, *args, context=self.own)

    def pump(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, context=self.own)

    def endpoint(self, subject: str) -> tuple[Handler, Connection] | None:
        found = [(handler, of) for pattern, handler, of in self.endpoints if matches(pattern, subject)]
        return self.random.choice(found) if found else None


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a verb of the server, which waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"{work!r} waits")


def lane_of(subject: str) -> str:
    """What is sent to one stream arrives in order."""
    return subject.rpartition(".")[0]


class Connection:
    """`remuda_bus.bus.Bus` of one process. `leases`: a bucket of leases that nobody else sees."""

    def __init__(self, network: Network, process: Process, leases: MemoryBus | None = None) -> None:
        self._network = network
        self._process = process
        self._leases = leases
        self._lanes: dict[object, float] = {}
        self._arrivals: list[Arrivals] = []
        self._cut_until = 0.0
        self._connections = 1
        self.ended = False

    # How messages travel

    def cut(self, for_s: float) -> None:
        now = self._now()
        self._cut_until = max(self._cut_until, now + for_s)
        self._network.later(for_s, self._reconnected)

    def hang_up(self) -> None:
        """Nothing its process does from now on has an effect."""
        self.ended = True
        network = self._network
        network.endpoints = [endpoint for endpoint in network.endpoints if endpoint[2] is not self]
        network.listeners = [listener for listener in network.listeners if listener[2] is not self]
        for arrivals in self._arrivals:
            arrivals.stop()

    def _reconnected(self) -> None:
        if not self.ended and self._now() >= self._cut_until:
            self._connections += 1
            for arrivals in list(self._arrivals):
                arrivals.reconnected()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def delay_s(self, lane: object) -> float:
        """Of the next message in the lane: not before the ones sent before it. "" is no lane."""
        now = self._now()
        at = max(now, self._cut_until) + self._network.weather.delay_s()
        if lane == "":
            return at - now
        self._lanes[lane] = at = max(at, self._lanes.get(lane, 0.0) + APART_S)
        return at - now

    def usable(self) -> None:
        if self.ended:
            raise asyncio.CancelledError("this process is dead")

    async def _call(self, lane: object, work: Work, timeout_s: float = ANSWER_WITHIN_S) -> Any:
        """Do something at the server. Raises what that raises, and Unanswered."""

        def arrived(answered: asyncio.Future[Any], fate: Fate) -> None:
            try:
                result = at_once(work())
            except _NoAnswer:
                pass
            except (BusError, ChangedPast, ValueError) as error:
                self._answer(answered, fate, None, error)
            else:
                self._answer(answered, fate, result, None)

        return await self._ask(lane, arrived, timeout_s, str(lane) or "the server")

    async def _ask(
        self, lane: object, arrived: Callable[[asyncio.Future[Any], Fate], None], timeout_s: float, what: str
    ) -> Any:
        self.usable()
        fate = self._network.weather.fate()
        if self._now() < self._cut_until and self._network.random.random() < 0.5:
            fate = Fate.LOST
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if fate is not Fate.LOST:
            self._network.later(self.delay_s(lane), self._arrives, partial(arrived, answered, fate))
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            self._network.story.tell(f"no answer from {what} ({fate.name.lower()})")
            raise Unanswered(f"{what}: no answer within {timeout_s:g} s") from None
        finally:
            self.usable()

    def _arrives(self, arrived: Callable[[], None]) -> None:
        """What a process had sent before it died may have left the machine or not."""
        if not self.ended or self._network.random.random() < 0.5:
            arrived()

    def _answer(self, answered: asyncio.Future[Any], fate: Fate, result: Any, error: BaseException | None) -> None:
        if fate is Fate.ARRIVES and self._now() >= self._cut_until:
            self._network.later(self._network.weather.delay_s(), self._answered, answered, result, error)

    def _answered(self, answered: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if answered.done() or self.ended or self._now() < self._cut_until:
            return
        if error is not None:
            answered.set_exception(error)
        else:
            answered.set_result(result)

    # The verbs

    @property
    def max_payload(self) -> int:
        return self._network.server.max_payload

    @property
    def connections(self) -> int:
        return self._connections

    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        self.usable()
        weather = self._network.weather
        for _ in range(0 if weather.loses() else 2 if weather.repeats() else 1):
            self._network.later(self.delay_s(""), self._publish, subject, payload, headers)

    def _publish(self, subject: str, payload: bytes, headers: Headers | None) -> None:
        at_once(self._network.server.publish(subject, payload, headers))
        for pattern, arrivals, of in list(self._network.listeners):
            if matches(pattern, subject):
                arrivals.come([Message(subject, payload, dict(headers or {}))], of.delay_s(""))

    async def subscribe(self, subject: str, listener: Listener) -> None:
        self.usable()
        arrivals = self._arriving(None)
        self._network.listeners.append((subject, arrivals, self))
        self._process.work(self._listen(arrivals, listener))

    async def _listen(self, arrivals: Arrivals, listener: Listener) -> None:
        while True:
            for message in await arrivals.take(1):
                try:
                    await listener(message)
                except Exception as error:  # noqa: BLE001 - told in the story
                    self._unexpected(f"listener of {message.subject}", error)

    def _unexpected(self, where: str, error: Exception) -> None:
        if not isinstance(error, BusError):
            self._network.story.violated(f"{where}: {type(error).__name__}: {error}")

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        asked = Message(subject, payload, dict(headers or {}))

        def arrived(answered: asyncio.Future[Any], fate: Fate) -> None:
            endpoint = self._network.endpoint(subject)
            if endpoint is None:
                self._answer(answered, fate, None, NobodyListens(f"{subject}: nobody listens"))
                return
            handler, of = endpoint
            self._network.later(of.delay_s(""), of._serve, handler, asked, partial(self._answer, answered, fate))

        result = await self._ask("", arrived, timeout_s, subject)
        return Message(subject, result.payload, result.headers)

    def _serve(self, handler: Handler, message: Message, answer: Callable[[Any, BaseException | None], None]) -> None:
        if not self.ended:
            self._process.work(self._handle(handler, message, answer))

    async def _handle(
        self, handler: Handler, message: Message, answer: Callable[[Any, BaseException | None], None]
    ) -> None:
        result, failure = Reply(b"", {}), None
        try:
            given = await handler(message)
            result = given if isinstance(given, Reply) else Reply(given, {})
        except Refused as refusal:
            failure = refusal
        except Exception as error:  # noqa: BLE001 - told in the story
            self._unexpected(f"request {message.subject}", error)
            failure = Refused(f"{type(error).__name__}: {error}", 500)
        if not self.ended and self._now() >= self._cut_until:
            answer(result, failure)

    async def serve(self, subject: str, handler: Handler, name: str) -> Endpoint:
        self.usable()
        endpoint = (subject, handler, self)
        self._network.endpoints.append(endpoint)
        return Endpoint(self._network, endpoint)

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
        server, judges = self._network.server, self._network.judges

        async def work() -> int:
            try:
                return await server.append(subject, payload, headers, msg_id=msg_id, expect_last=expect_last)
            except Refused as error:
                if judges:
                    raise
                await server.append(subject, payload, headers, msg_id=msg_id)
                raise _NoAnswer from error

        return int(await self._call(lane_of(subject), work, timeout_s))

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        batch = list(messages)
        return int(
            await self._call(lane_of(batch[0].subject), lambda: self._network.server.append_all(batch), timeout_s)
        )

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reading:
        reader = await self._insist(lambda: self._network.server.read(stream, subject, after, digest))
        return Reading(self._arriving(reader.batch))

    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consuming:
        return await self._consuming(partial(self._network.server.consumer, stream, subject, durable))

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consuming:
        return await self._consuming(partial(self._network.server.join_consumer, stream, durable, metadata))

    async def _consuming(self, make: Work) -> Consuming:
        """The server gives nothing before it is asked to, which is when the process knows that it may."""
        return Consuming(self, self._network, make, await self._insist(make))

    async def _insist(self, work: Work) -> Any:
        """What is opened waits for the server as long as that takes."""
        while True:
            try:
                return await self._call("", work)
            except Unanswered:
                await asyncio.sleep(RETRY_S)

    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        """Nothing of it is there before it is whole."""
        whole = [part async for part in parts]
        await self._call("", lambda: self._network.server.put_object(bucket, name, one_by_one(whole)))

    async def get(self, bucket: str, key: str) -> Entry | None:
        found: Entry | None = await self._call(bucket, lambda: self._keeper(bucket).get(bucket, key))
        return found

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        return int(await self._call(bucket, lambda: self._keeper(bucket).put(bucket, key, value, revision)))

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        await self._call(bucket, lambda: self._keeper(bucket).delete(bucket, key, revision))

    def _keeper(self, bucket: str) -> MemoryBus:
        return self._leases if self._leases is not None and bucket == subjects.LEASES.name else self._network.server

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        self.usable()
        return Watch(self._arriving(partial(_next_entry, self._keeper(bucket).watch(bucket))))

    async def declare(self) -> None:
        pass

    async def close(self) -> None:
        self.hang_up()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        """Every other verb of the bus that asks the server something."""
        asked = getattr(self._network.server, verb)
        return lambda *args, **options: self._call(verb, lambda: asked(*args, **options))

    def _arriving(self, source: Callable[[], Awaitable[list[Any]]] | None) -> Arrivals:
        arrivals = Arrivals(self, self._network, source)
        self._arrivals.append(arrivals)
        return arrivals

    def forget(self, arrivals: Arrivals) -> None:
        self._arrivals = [other for other in self._arrivals if other is not arrivals]


class Endpoint:
    def __init__(self, network: Network, endpoint: tuple[str, Handler, Connection]) -> None:
        self._network = network
        self._endpoint = endpoint

    async def close(self) -> None:
        self._network.endpoints = [other for other in self._network.endpoints if other is not self._endpoint]


class Arrivals:
    """What comes from a source at the server, in order, and waits to be taken."""

    def __init__(
        self, connection: Connection, network: Network, source: Callable[[], Awaitable[list[Any]]] | None
    ) -> None:
        self._connection = connection
        self._network = network
        self._waiting: deque[Any] = deque()
        self._bell: asyncio.Future[None] | None = None
        self._failed: BaseException | None = None
        self._life = 0
        self._pump: asyncio.Task[None] | None = None
        if source is not None:
            self.start(source)

    def start(self, source: Callable[[], Awaitable[list[Any]]]) -> None:
        """From a source of its own; what comes from one before is forgotten."""
        self.pause()
        self._life += 1
        self._waiting.clear()
        self._pump = self._network.pump(self._fetch(source))

    async def _fetch(self, source: Callable[[], Awaitable[list[Any]]]) -> None:
        try:
            while True:
                self.come(await source(), self._connection.delay_s(self))
        except (BusError, ChangedPast) as error:
            self._failed = error
            self._ring()

    def come(self, some: list[Any], delay_s: float) -> None:
        self._network.later(delay_s, self._arrive, some, self._life)

    def _arrive(self, some: list[Any], life: int) -> None:
        if life == self._life:
            self._waiting.extend(some)
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def take(self, at_most: int, max_bytes: int = 1 << 62, timeout_s: float | None = None) -> list[Any]:
        self._connection.usable()
        if not self._waiting:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_some()
            except TimeoutError:
                return []
        taken = [self._waiting.popleft()]
        size = len(getattr(taken[0], "payload", b""))
        while self._waiting and len(taken) < at_most:
            size += len(getattr(self._waiting[0], "payload", b""))
            if size > max_bytes:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _until_some(self) -> None:
        while not self._waiting:
            if self._failed is not None:
                raise self._failed
            self._bell = asyncio.get_running_loop().create_future()
            await self._bell
            self._connection.usable()

    def reconnected(self) -> None:
        """A reading goes on where it was."""

    def pause(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()

    def fail(self, error: BaseException) -> None:
        self._failed = error
        self._waiting.clear()
        self._ring()

    def stop(self) -> None:
        self.pause()
        self._connection.forget(self)


async def one_by_one(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _next_entry(entries: AsyncIterator[Entry]) -> list[Entry]:
    return [await anext(entries)]


class Watch:
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Entry:
        entry: Entry = (await self._arrivals.take(1))[0]
        return entry

    async def aclose(self) -> None:
        self._arrivals.stop()


class Reading:
    """`remuda_bus.bus.Reader`."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        return await self._arrivals.take(max_messages, max_bytes, timeout_s)

    async def close(self) -> None:
        self._arrivals.stop()
        self._arrivals.fail(BusError("the reading is closed"))


class Consuming:
    """`remuda_bus.bus.Consumer`. Acknowledgements get lost, and messages come again."""

    def __init__(self, connection: Connection, network: Network, make: Work, consumer: Any) -> None:
        self._connection = connection
        self._network = network
        self._make = make
        self._consumer = consumer
        self._arrivals = connection._arriving(consumer.batch)
        self._arrivals.reconnected = self._rejoin  # type: ignore[method-assign]

    def _rejoin(self) -> None:
        try:
            self._consumer = at_once(self._make())
            self._arrivals.start(self._consumer.batch)
        except BusError as error:
            self._arrivals.fail(error)

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        messages = await self._arrivals.take(max_messages, timeout_s=timeout_s)
        if messages and self._network.weather.repeats():
            self._network.story.tell(f"{len(messages)} messages on {messages[0].subject} will come again")
            self._arrivals.come(messages, self._network.random.uniform(0.1, 5.0))
        return messages

    async def ack(self, messages: Sequence[Message]) -> None:
        self._connection.usable()
        if self._network.weather.loses():
            middle = len(messages) // 2
            self._arrivals.come(list(messages[middle:]), ACK_WAIT_S)
            messages = messages[:middle]
        consumer = self._consumer
        self._network.later(
            self._connection.delay_s(self), self._connection._arrives, lambda: at_once(consumer.ack(messages))
        )

    async def close(self) -> None:
        self._arrivals.stop()
        self._arrivals.fail(BusError("the consumer is closed"))
