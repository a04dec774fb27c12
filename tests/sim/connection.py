"""The bus as one process sees it: a `Connection` to the server.

A call is a message to the server, the effect there, and an answer. Each way takes time, and either message may be lost.
Messages of a connection to one stream or bucket arrive in order; all others may overtake. A connection can be
cut for a while, and with its process it ends: what had been sent may still arrive, nothing comes back.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remuda_bus import subjects
from remuda_bus.bus import (
    BusError,
    Entry,
    Full,
    Handler,
    Headers,
    HistoryChanged,
    Listener,
    Message,
    NoResponders,
    Outgoing,
    Refused,
    Reply,
    Unanswered,
)
from remuda_bus.memory import MemoryBus, matches

from .arrivals import Arrivals, Consuming, Reading, Watch
from .network import Network, Served, Work, at_once, one_by_one
from .weather import Fate

if TYPE_CHECKING:
    from .process import Process

ANSWER_WITHIN_S = 5.0
RETRY_S = 0.2
LEADING = (subjects.LEASES.name, subjects.LEADERS.name)
ASKED_WITHIN_S = 4.5
PLAYED_WITHIN_S = 61.0  # a core waits so long for the leader to which it has passed the question on
APART_S = 1e-6  # timers that are due at once come in any order


class _NoAnswer(Exception):
    pass


class Connection:
    """`remuda_bus.bus.Bus` of one process. `leases`: a bucket of leases of its own."""

    def __init__(self, network: Network, process: Process, leases: MemoryBus | None = None) -> None:
        self._network = network
        self._process = process
        self._leases = leases
        self._lanes: dict[object, float] = {}
        self._arrivals: list[Arrivals] = []
        self._cut_until = 0.0
        self._connections = 1
        self.ended = False
        self.answering: Counter[str] = Counter()  # requests that this process answers just now, by subject

    # How messages travel

    def cut(self, for_s: float) -> None:
        now = self._now()
        self._cut_until = max(self._cut_until, now + for_s)
        self._network.later(for_s, self._reconnected)

    def hang_up(self) -> None:
        """Nothing its process does from now on has an effect."""
        self.ended = True
        network = self._network
        network.endpoints = [endpoint for endpoint in network.endpoints if endpoint.of is not self]
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
            except (BusError, HistoryChanged, ValueError) as error:
                self.answer(answered, fate, None, error)
            else:
                self.answer(answered, fate, result, None)

        return await self.ask(lane, arrived, timeout_s, str(lane) or "the server")

    async def ask(
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
        """Messages of a killed process may have left the machine or not."""
        if not self.ended or self._network.random.random() < 0.5:
            arrived()

    def answer(self, answered: asyncio.Future[Any], fate: Fate, result: Any, error: BaseException | None) -> None:
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
    def connection_count(self) -> int:
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
        arrivals = self.arriving(None)
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
            endpoints = self._network.asked(subject)
            if not endpoints:
                self.answer(answered, fate, None, NoResponders(f"{subject}: nobody listens"))
            for one in endpoints:
                self._network.later(one.of.delay_s(""), one.of._serve, one, asked, partial(self.answer, answered, fate))

        result = await self.ask("", arrived, timeout_s, subject)
        return Message(subject, result.payload, result.headers)

    def _serve(self, served: Served, message: Message, answer: Callable[[Any, BaseException | None], None]) -> None:
        if not self.ended and served.is_asked(message.subject):
            self._process.work(self._handle(served, message, answer))

    async def _handle(
        self, served: Served, message: Message, answer: Callable[[Any, BaseException | None], None]
    ) -> None:
        result, failure, began = Reply(b"", {}), None, self._process.awake_s()
        self.answering[message.subject] += 1
        try:
            given = await served.handler(message)
            result = given if isinstance(given, Reply) else Reply(given, {})
        except Refused as refusal:
            failure = refusal
        except Exception as error:  # noqa: BLE001 - told in the story
            self._unexpected(f"request {message.subject}", error)
            failure = Refused(f"{type(error).__name__}: {error}", 500)
        finally:
            self.answering[message.subject] -= 1
        if not self.ended and (took := self._process.awake_s() - began) > longest_s(message.subject):
            self._network.story.violated(f"{message.subject}: a core has taken {took:.1f} s to answer")
        silent = served.answers is not None and not served.answers()
        if not silent and not self.ended and self._now() >= self._cut_until:
            answer(result, failure)

    async def serve(
        self,
        subject: str,
        handler: Handler,
        name: str,
        answers: Callable[[], bool] | None = None,
        *,
        mine: Callable[[str], bool] | None = None,
        at_once: int = 0,
    ) -> Endpoint:
        self.usable()
        endpoint = Served(subject, handler, self, answers, mine)
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
            if subject == self._network.full:
                self._network.refused += 1
                raise Full(f"{subject}: maximum bytes exceeded")
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
        return Reading(self.arriving(reader.batch))

    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consuming:
        return await self._consuming(partial(self._network.server.consumer, stream, subject, durable))

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consuming:
        return await self._consuming(partial(self._network.server.join_consumer, stream, durable, metadata))

    async def _consuming(self, make: Work) -> Consuming:
        """The server gives nothing before it is asked to, which is when the process knows that it may."""
        return Consuming(self, self._network, make, await self._insist(make))

    async def _insist(self, work: Work) -> Any:
        """Opening waits for the server, without a limit."""
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

    async def entries(self, bucket: str) -> list[Entry]:
        return list(await self._call(bucket, lambda: self._keeper(bucket).entries(bucket)))

    def _keeper(self, bucket: str) -> MemoryBus:
        return self._leases if self._leases is not None and bucket in LEADING else self._network.server

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        self.usable()
        return Watch(self.arriving(partial(_next_entry, self._keeper(bucket).watch(bucket))))

    async def declare(self) -> None:
        pass

    async def close(self) -> None:
        self.hang_up()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        """Every other verb of the bus that asks the server something."""
        asked = getattr(self._network.server, verb)
        return lambda *args, **options: self._call(verb, lambda: asked(*args, **options))

    def arriving(self, source: Callable[[], Awaitable[list[Any]]] | None = None) -> Arrivals:
        arrivals = Arrivals(self, self._network, source)
        self._arrivals.append(arrivals)
        return arrivals

    def forget(self, arrivals: Arrivals) -> None:
        self._arrivals = [other for other in self._arrivals if other is not arrivals]


class Endpoint:
    def __init__(self, network: Network, endpoint: Served) -> None:
        self._network = network
        self._endpoint = endpoint

    async def close(self) -> None:
        self._network.endpoints = [other for other in self._network.endpoints if other is not self._endpoint]


async def _next_entry(entries: AsyncIterator[Entry]) -> list[Entry]:
    return [await anext(entries)]


def longest_s(subject: str) -> float:
    """How long a core may take to answer: an asker waits no longer, and no place of a core is held."""
    about, kind = (*subject.split("."), "", "", "")[2], subject.rpartition(".")[2]
    if about not in ("core", "leader") or kind == "digest":
        return math.inf
    return PLAYED_WITHIN_S if kind in subjects.PLAYED_QUERIES else ASKED_WITHIN_S


def lane_of(subject: str) -> str:
    """Messages to one stream arrive in order."""
    return subject.rpartition(".")[0]
