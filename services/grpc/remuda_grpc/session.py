"""One RM that is connected to this front end: its heartbeats, and its callbacks on their way to its streams."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Consumer, ConsumerGone, Message
from remuda_grpc import limits
from remuda_grpc.status import Failure, failure_of, superseded
from remuda_sdk.resource_manager.callbacks import NOWHERE, Place, place_of
from remuda_sdk.resource_manager.registration import RESUMED_PAUSE_S, Heartbeat, RegistrationFailed, Superseded, resume

log = structlog.get_logger()

KINDS: Final = ("application", "allocation", "node")
# Scheduling states and dead letters: for a conversation (`remuda.v1.ResourceManager`), if there is one.
NOTICES: Final = "notices"
_NOTICES: Final = ("container", "dead_letter")
SENDING: Final = float("inf")  # the time at which a callback was sent that is being sent


@dataclass(slots=True)
class Callbacks:
    """Callbacks of one kind. `waiting`: not sent. `sent`: with the time; not confirmed. `confirmed`: the
    newest one that was."""

    waiting: deque[Message] = field(default_factory=deque)
    sent: deque[tuple[Message, float]] = field(default_factory=deque)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    stream: CallbackStream | None = None
    confirmed: Place = NOWHERE


class CallbackStream:
    """The callbacks of one kind, for the RPC that sends them."""

    def __init__(self, session: RmSession, kind: str, peer: str, after: Place) -> None:
        """`after`: the client has processed the callbacks up to here."""
        self.kind = kind
        self.peer = peer
        self.after = after
        self.failure: Failure | None = None
        self._session = session

    @property
    def registration(self) -> int:
        return self._session.registration

    async def next(self) -> Message:
        """Returns the next callback. The caller has sent it when it calls again. Raises the Failure that ends the
        stream.
        """
        return await self._session.next(self)

    async def close(self) -> None:
        """Callbacks that are not confirmed wait for the next stream of this kind."""
        await self._session.detach(self)


class RmSession:
    """The streams of one RM that is connected by this process.

    `registration`: the number of the registration whose callbacks the streams get. `failure`: ends every stream; None
    while the RM is connected. `on_idle`: called when the last stream is closed.
    """

    def __init__(self, bus: Bus, rm_id: str, registration: int, on_idle: Callable[[RmSession], object]) -> None:
        self.rm_id = rm_id
        self.registration = registration
        self.failure: Failure | None = None
        self._bus = bus
        self._on_idle = on_idle
        self._kinds = {kind: Callbacks() for kind in (*KINDS, NOTICES)}
        self._held_messages = 0
        self._held_bytes = 0
        self._room = asyncio.Event()
        self._consumer: Consumer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._registering = 0
        self._over: Failure | None = None  # of a registration that is over, while another one is made
        self._heartbeat = Heartbeat(bus, rm_id, limits.HEARTBEAT_INTERVAL_S, self._heartbeat_headers)
        self._now = asyncio.get_running_loop().time

    # Streams

    def attach(self, kind: str, peer: str, after: Place) -> CallbackStream:
        """Opens the stream of this kind. An earlier one of the same kind ends."""
        of = self._kinds[kind]
        if of.stream is not None:
            self._end(of.stream, superseded(f"rmID {self.rm_id!r} has opened another stream of this kind"))
        of.stream = CallbackStream(self, kind, peer, after)
        if not self._tasks:
            self._start()
        return of.stream

    async def detach(self, stream: CallbackStream) -> None:
        of = self._kinds[stream.kind]
        if of.stream is stream:
            self._give_back(of)
            of.stream = None
            if stream.kind == NOTICES:  # they wait for no other stream
                of.sent.extend((message, 0.0) for message in of.waiting)
                of.waiting.clear()
        if self.is_idle:
            self._on_idle(self)

    @property
    def is_idle(self) -> bool:
        return all(of.stream is None for of in self._kinds.values())

    def fail(self, failure: Failure) -> None:
        """Ends all streams, and takes no others."""
        self.failure = failure
        for of in self._kinds.values():
            if of.stream is not None:
                self._end(of.stream, failure)

    def end_streams_of_others(self, peer: str) -> None:
        """Ends the streams of earlier clients, because another client has registered the RM."""
        for of in self._kinds.values():
            if of.stream is not None and of.stream.peer != peer:
                self._end(of.stream, superseded(f"rmID {self.rm_id!r} was registered by another client"))

    def _end(self, stream: CallbackStream, failure: Failure) -> None:
        of = self._kinds[stream.kind]
        stream.failure = failure
        if of.stream is stream:
            self._give_back(of)
            of.stream = None
        of.changed.set()

    # Callbacks

    async def next(self, stream: CallbackStream) -> Message:
        of = self._kinds[stream.kind]
        while True:
            if stream.failure is not None:
                raise stream.failure
            now = self._now()
            if of.sent and of.sent[-1][1] == SENDING:
                of.sent[-1] = (of.sent[-1][0], now)  # the caller is back: it was sent
            while of.waiting:
                message = of.waiting.popleft()
                if place_of(message) <= stream.after:  # the client has had it
                    of.sent.append((message, 0.0))
                    continue
                of.sent.append((message, SENDING))
                return message
            of.changed.clear()
            await of.changed.wait()

    def _give_back(self, of: Callbacks) -> None:
        of.waiting.extendleft(message for message, _ in reversed(of.sent))
        of.sent.clear()

    def _route(self, message: Message) -> bool:
        """Whether a stream will take the callback."""
        kind = message.subject.rsplit(".", 1)[1]
        of = self._kinds.get(NOTICES if kind in _NOTICES else kind)
        if of is None or (kind in _NOTICES and of.stream is None) or NOWHERE < place_of(message) <= of.confirmed:
            return False
        of.waiting.append(message)
        of.changed.set()
        self._held_messages += 1
        self._held_bytes += len(message.payload)
        return True

    async def _receive(self) -> None:
        """Take callbacks from the bus while there is room. Those that no stream carries are confirmed at once. A
        consumer that is gone is made again, unless the registration is over: raises Superseded."""
        while True:
            try:
                await self._take_all()
            except ConsumerGone as gone:
                if not self._registering:
                    await resume(self._bus, self.rm_id, self.registration, gone)
                await self._drop_consumer()
            await asyncio.sleep(RESUMED_PAUSE_S)

    async def _drop_consumer(self) -> None:
        """Close the consumer. The next consumer receives again all messages that are not acknowledged."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.close()
        for of in self._kinds.values():
            of.waiting.clear()
            of.sent.clear()
        self._held_messages = self._held_bytes = 0

    async def _take_all(self) -> None:
        durable = subjects.callback_consumer(self.rm_id)
        consumer = await self._bus.join_consumer(
            subjects.CALLBACKS.name, durable, {subjects.REGISTRATION: str(self.registration)}
        )
        self._consumer = consumer
        while True:
            self._update_room()
            await self._room.wait()
            batch = await consumer.batch(limits.BATCH_MESSAGES)
            await consumer.ack([message for message in batch if not self._route(message)])

    def _update_room(self) -> None:
        if self._held_messages < limits.UNCONFIRMED_MESSAGES and self._held_bytes < limits.UNCONFIRMED_BYTES:
            self._room.set()
        else:
            self._room.clear()

    async def _confirm(self) -> None:
        while True:
            await asyncio.sleep(limits.CONFIRM_EVERY_S)
            until = self._now() - limits.CONFIRM_AFTER_S
            done: list[Message] = []
            for of in self._kinds.values():
                while of.sent and of.sent[0][1] <= until:
                    done.append(of.sent.popleft()[0])
                    of.confirmed = max(of.confirmed, place_of(done[-1]))
            if done and (consumer := self._consumer) is not None:
                await consumer.ack(done)
                if consumer is self._consumer:
                    self._held_messages -= len(done)
                    self._held_bytes -= sum(len(message.payload) for message in done)
                    self._update_room()

    def _heartbeat_headers(self) -> dict[str, str]:
        return {subjects.REGISTRATION: str(self.registration)}

    # Life

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        work = {"callbacks": self._receive, "confirmations": self._confirm, "heartbeats": self._heartbeat.run}
        self._tasks = [loop.create_task(self._guarded(run), name=f"{of} of {self.rm_id}") for of, run in work.items()]

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Superseded as over:
            self._over = superseded(str(over))
            if not self._registering:
                self.fail(self._over)
        except RegistrationFailed as failed:
            self.fail(Failure(grpc.StatusCode.UNAVAILABLE, "CONSUMER_GONE", str(failed)))
        except BusError as error:
            self.fail(failure_of(error))
        except Exception as error:
            log.exception("the connection of an RM has failed", rm=self.rm_id)
            self.fail(Failure(grpc.StatusCode.INTERNAL, "INTERNAL", f"{type(error).__name__}: {error}"))

    @contextmanager
    def registering(self) -> Iterator[None]:
        """Marks that this process registers the RM: its consumer may be replaced before the number is known."""
        self._registering += 1
        before = self.registration
        try:
            yield
        finally:
            self._registering -= 1
            if self._over is not None and self.registration == before and not self._registering:
                self.fail(self._over)

    async def registered(self, registration: int) -> None:
        """Continues with the callbacks of this registration; callbacks of a former one are dropped."""
        if registration == self.registration:
            return
        started = bool(self._tasks)
        await self._stop()
        self.registration = registration
        self._over = None
        await self._drop_consumer()
        for of in self._kinds.values():
            of.confirmed = NOWHERE
        if started:
            self._start()

    async def close(self) -> None:
        await self._stop()

    async def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop_consumer()
