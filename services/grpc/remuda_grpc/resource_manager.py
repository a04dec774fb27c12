"""The RPCs of `remuda.v1.ResourceManager`: what si.v1 has no RPC for (000, API Interface)."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, Final

import grpc

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Consumer, ConsumerGone, Message, Refused
from remuda_bus.streams.ordered_append import append_in_order
from remuda_operations.operators import certificate_names
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.registration import OUTAGE, REFUSED, RegistrationFailed, Superseded, resume
from remuda_sdk.resource_manager.requests import RequestMessages

from . import limits
from .identity import Clients
from .requests import message_in
from .scheduler import abort, check_rm_id, first_failure, metadata_of, position_in
from .session import NOTICES, CallbackStream
from .sessions import Sessions
from .status import Failure, failure_of, invalid, superseded

Context = Any  # grpc.aio.ServicerContext; grpcio has no types


class ResourceManager:
    """A conversation is a stream of the RM, like those of si.v1: it keeps the RM connected, and a later one takes its
    place."""

    def __init__(self, bus: Bus, sessions: Sessions, clients: Clients) -> None:
        self._bus = bus
        self._sessions = sessions
        self._clients = clients

    async def converse(self, _: Any, context: Context) -> None:
        try:
            hello = await self._hello(context)
            stated, after = position_in(metadata_of(context))
            notices = await self._sessions.open(hello.rm_id, NOTICES, context.peer(), stated, after)
            try:
                await _Conversation(self._bus, hello, context, notices).run()
            finally:
                await notices.close()
        except Failure as failure:
            await abort(context, failure)

    async def update_configuration(self, payload: bytes, context: Context) -> bytes:
        """Stores the request. Its refusal would be a dead letter."""
        try:
            request = message_in(si.UpdateConfigurationRequest, payload)
            check_rm_id(request.rmID)
            self._check_client(context, request.rmID)
            registration, _ = position_in(metadata_of(context))
            messages = RequestMessages(self._bus, request.rmID, "grpc.configuration")
            if len(payload) > messages.limit:
                raise invalid("config", f"config: {len(payload)} bytes, expected at most {messages.limit}")
            with ExitStack() as spans:
                message = messages.message("configuration", payload, registration, spans)
                await append_in_order(self._bus, [message], limits.STORE_FOR_S)
        except BusError as error:
            await abort(context, failure_of(error))
        except Failure as failure:
            await abort(context, failure)
        return rm_pb2.UpdateConfigurationResponse().SerializeToString()

    async def _hello(self, context: Context) -> rm_pb2.Hello:
        first = await context.read()
        if first is grpc.aio.EOF:
            raise invalid("hello", "the stream ended before its first message, expected hello")
        message: rm_pb2.FromResourceManager = message_in(rm_pb2.FromResourceManager, first)
        if message.WhichOneof("message") != "hello":
            raise invalid("hello", "the first message has no hello")
        check_rm_id(message.hello.rm_id)
        self._check_client(context, message.hello.rm_id)
        return message.hello

    def _check_client(self, context: Context, rm_id: str) -> None:
        self._clients.check(certificate_names(context.auth_context()), rm_id)


class _Conversation:
    def __init__(self, bus: Bus, hello: rm_pb2.Hello, context: Context, notices: CallbackStream) -> None:
        self._bus = bus
        self._hello = hello
        self._context = context
        self._notices = notices
        self._lock = asyncio.Lock()  # gRPC takes one message at a time
        self._questions = Questions(bus, hello.rm_id, self._send)

    async def run(self) -> None:
        """Runs until the client cancels. Raises Failure."""
        registration = (subjects.REGISTRATION.lower(), str(self._notices.registration))
        try:
            async with self._questions.served(), asyncio.TaskGroup() as tasks:
                await self._context.send_initial_metadata((registration,))
                tasks.create_task(self._read())
                tasks.create_task(self._send_notices())
                if self._hello.events:
                    tasks.create_task(self._send_events())
        except* Failure as failures:
            raise first_failure(failures) from None
        except* BusError as errors:
            error = errors.exceptions[0]
            raise failure_of(error) if isinstance(error, BusError) else error from None

    async def _send(self, message: rm_pb2.ToResourceManager) -> None:
        async with self._lock:
            await self._context.write(message.SerializeToString())

    async def _read(self) -> None:
        while (payload := await self._context.read()) is not grpc.aio.EOF:
            message = message_in(rm_pb2.FromResourceManager, payload)
            if message.WhichOneof("message") != "answer":
                raise invalid("answer", "a message after the first has no answer")
            self._questions.answered(message.answer)

    async def _send_notices(self) -> None:
        while True:
            message = await self._notices.next()
            notice = rm_pb2.ToResourceManager()
            kind = message.subject.rsplit(".", 1)[1]
            getattr(notice, kind).ParseFromString(message.payload)
            await self._send(notice)

    async def _send_events(self) -> None:
        while True:
            consumer = await self._event_consumer()
            try:
                await self._send_all(consumer)
            except ConsumerGone as gone:  # an operator has deleted it, or its stream
                await self._resume(gone)
            finally:
                await consumer.close()

    async def _event_consumer(self) -> Consumer:
        durable = subjects.event_consumer(self._hello.rm_id)
        try:
            return await self._bus.join_consumer(subjects.EVENTS.name, durable, {})
        except ConsumerGone as gone:
            await self._resume(gone)
        try:
            return await self._bus.join_consumer(subjects.EVENTS.name, durable, {})
        except ConsumerGone:
            reason = 'events: the RM has not registered with extraConfig events "true"'
            raise Failure(grpc.StatusCode.FAILED_PRECONDITION, "NO_EVENTS", reason, "events") from None

    async def _resume(self, gone: ConsumerGone) -> None:
        try:
            await resume(self._bus, self._hello.rm_id, self._notices.registration, gone)
        except Superseded as over:
            raise superseded(str(over)) from None
        except RegistrationFailed as failed:
            raise Failure(grpc.StatusCode.UNAVAILABLE, "CONSUMER_GONE", str(failed)) from None

    async def _send_all(self, consumer: Consumer) -> None:
        """Writing to a client that is gone succeeds for a while: events are confirmed as callbacks are, when the
        conversation lives on."""
        now = asyncio.get_running_loop().time
        sent: deque[tuple[float, list[Message]]] = deque()  # batches, each with the time at which it is confirmed
        while True:
            left_s = max(0.0, sent[0][0] - now()) if sent else None
            if sum(len(batch) for _, batch in sent) < limits.UNCONFIRMED_MESSAGES:
                batch = await consumer.batch(limits.BATCH_MESSAGES, left_s)
            else:
                batch = []
                await asyncio.sleep(left_s or 0)
            while sent and sent[0][0] <= now():
                await consumer.ack(sent.popleft()[1])
            for message in batch:
                await self._send(rm_pb2.ToResourceManager(event=si.EventRecord.FromString(message.payload)))
            if batch:
                sent.append((now() + limits.CONFIRM_AFTER_S, batch))


Send = Callable[[rm_pb2.ToResourceManager], Awaitable[None]]

_ARGUMENTS: Final[dict[str, Any]] = {
    "predicates": si.PredicatesArgs,
    "preemption_predicates": si.PreemptionPredicatesArgs,
    "batch_predicates": predicates_pb2.BatchPredicatesRequest,
    "state_dump": rm_pb2.StateDumpRequest,
}


class Questions:
    """The scheduler's questions to one RM that is connected by a conversation: from the bus to the RM, and back.

    `send` sends a message to the RM. A question that the RM has not answered before its conversation ends is refused,
    like a question that the RM does not answer in time.
    """

    def __init__(self, bus: Bus, rm_id: str, send: Send) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[str, asyncio.Future[rm_pb2.Answer]]] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Answers for the RM inside of the block."""
        async with AsyncExitStack() as stack:
            for kind in subjects.RM_ANSWERS:
                # An RM that does not answer takes no places of other RMs.
                serving = await self._bus.serve(
                    subjects.question(self._rm_id, kind), self._asker(kind), kind, at_once=limits.OPEN_QUESTIONS
                )
                stack.push_async_callback(serving.close)
            try:
                yield
            finally:
                for _, answer in self._open.values():
                    answer.cancel()

    def answered(self, answer: rm_pb2.Answer) -> None:
        """Answers to questions that are no longer open are ignored. Raises Failure INVALID_ARGUMENT when the answer is
        one to another kind of question."""
        kind, waiting = self._open.get(answer.number, ("", None))
        if waiting is None or waiting.done():
            return
        given = answer.WhichOneof("answer") or "predicates"
        if given != kind and not answer.refusal:
            raise invalid("answer", f"answer {answer.number}: {given}, expected {kind}")
        waiting.set_result(answer)

    def _asker(self, kind: str) -> Callable[[Message], Awaitable[bytes]]:
        async def ask(message: Message) -> bytes:
            if len(self._open) >= limits.OPEN_QUESTIONS:
                raise Refused(f"{limits.OPEN_QUESTIONS} questions to {self._rm_id!r} have no answer yet", OUTAGE)
            number = next(self._numbers)
            waiting: asyncio.Future[rm_pb2.Answer] = asyncio.get_running_loop().create_future()
            self._open[number] = kind, waiting
            try:
                async with asyncio.timeout(limits.ANSWER_WITHIN_S):
                    await self._send(rm_pb2.ToResourceManager(question=_question(number, kind, message)))
                    answer = await waiting
            except TimeoutError:
                raise Refused(f"the RM has not answered within {limits.ANSWER_WITHIN_S:g} s", REFUSED) from None
            except asyncio.CancelledError:
                if waiting.cancelled():
                    raise Refused("the RM has ended its conversation", REFUSED) from None
                raise
            finally:
                del self._open[number]
            if answer.refusal:
                raise Refused(answer.refusal[: limits.REASON_CHARACTERS], REFUSED)
            return _reply(kind, answer)

        return ask


def _question(number: int, kind: str, message: Message) -> rm_pb2.Question:
    question = rm_pb2.Question(
        number=number,
        application_id=message.headers.get(subjects.APPLICATION, ""),
        partition=message.headers.get(subjects.PARTITION, ""),
    )
    getattr(question, kind).CopyFrom(_ARGUMENTS[kind].FromString(message.payload))
    return question


def _reply(kind: str, answer: rm_pb2.Answer) -> bytes:
    if kind == "predicates":
        return b""
    return answer.state_dump.encode() if kind == "state_dump" else getattr(answer, kind).SerializeToString()
