"""The streams of an RM over gRPC (docs/grpc.md): three streams of requests and callbacks, and the conversation.

Every stream is opened again whenever it ends, and loses no request. A gRPC status of the front end becomes the error
that the RM would get over NATS.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from remuda_bus.bus import BusError, Full, Unanswered
from remuda_bus.retry import RetryPolicy, pause
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.callbacks import DeadLetter
from remuda_sdk.resource_manager.registration import RegistrationFailed, Superseded

# Between two attempts to open streams: a front end that starts again needs a second.
RECONNECT: Final = RetryPolicy(0.1)


OpenChannel = Callable[[Any], Awaitable[Any]]
Metadata = Callable[[], Mapping[str, str]]
Receive = Callable[[str, Any], Awaitable[None]]
Report = Callable[[Mapping[str, str]], Awaitable[None]]


class ReopenedStream:
    """A stream of an RM that is opened again whenever it ends.

    `open_channel` returns the channel of the RM; its argument is the channel on which the stream has failed, if any.
    `metadata` returns the metadata that names the RM and its registration. `receive` takes a callback of a kind, and
    waits while the RM is behind. `report` registers the RM again when the scheduler has lost its state; the argument is
    the metadata of the stream that has ended."""

    def __init__(
        self, method: str, open_channel: OpenChannel, metadata: Metadata, receive: Receive, report: Report
    ) -> None:
        self._method = method
        self._report = report
        self._open_channel = open_channel
        self._metadata = metadata
        self._receive = receive
        self._call: Any = None
        self._sent: Mapping[str, str] = {}

    async def run(self) -> None:
        """Exchange messages until an error that opening the stream again does not mend."""
        failed: Any = None
        while True:
            channel = await self._open_channel(failed)
            failed = None
            try:
                async with self._opened(channel) as call:
                    await self._exchange(call)
                    await _raise_status(call)
            except grpc.aio.AioRpcError as error:
                if not await self._is_mended(error):
                    raise error_of(error) from None
                failed = channel if error.code() in TRANSIENT else None
            await pause(RECONNECT)

    @abstractmethod
    async def _exchange(self, call: Any) -> None:
        """Read until the stream ends."""

    def _more_metadata(self) -> Mapping[str, str]:
        return {}

    async def _is_mended(self, error: RpcError) -> bool:
        """Report the state again if the scheduler asks for a report. Return whether the stream may be opened again."""
        if error.code() in TRANSIENT:
            return True
        if is_report_requested(error):
            await self._report(self._sent)
            return True
        return error.code() is grpc.StatusCode.ABORTED and await self._was_open()

    async def _was_open(self) -> bool:
        try:
            return bool(await self._call.initial_metadata())
        except grpc.aio.AioRpcError:
            return False

    @asynccontextmanager
    async def _opened(self, channel: Any) -> AsyncIterator[Any]:
        metadata = self._sent = {**self._metadata(), **self._more_metadata()}
        call = self._call = channel.stream_stream(self._method)(metadata=tuple(metadata.items()))
        try:
            yield call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not call.cancelled() or (task is not None and task.cancelling()):
                raise  # not the call alone was cancelled
        finally:
            call.cancel()


async def _raise_status(call: Any) -> None:
    """Raise the error with which a call has ended, if it has."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            code, await call.initial_metadata(), await call.trailing_metadata(), await call.details()
        )


SERVICE: Final = "/si.v1.Scheduler"
METHODS: Final[Mapping[str, tuple[str, Any]]] = {
    "application": ("UpdateApplication", si.ApplicationResponse),
    "allocation": ("UpdateAllocation", si.AllocationResponse),
    "node": ("UpdateNode", si.NodeResponse),
}
_OF_REQUESTS: Final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


class GrpcStream(ReopenedStream):
    """One of the three streams of requests and callbacks. Requests are numbered, so that the front end acknowledges
    them (docs/grpc.md, Acknowledgements)."""

    def __init__(
        self, kind: str, open_channel: OpenChannel, metadata: Metadata, receive: Receive, report: Report
    ) -> None:
        method, self._response = METHODS[kind]
        super().__init__(f"{SERVICE}/{method}", open_channel, metadata, receive, report)
        self._kind = kind
        self._token = secrets.token_hex(8)
        self._first = 1  # the number of the first request that is not acknowledged
        self._requests: list[bytes] = []  # requests that are not acknowledged
        self._written = 0  # how many of them were written on this call
        self._changed = asyncio.Condition()
        self._refusal: Exception | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way."""
        return bool(self._requests)

    async def send(self, payloads: list[bytes], within_s: float) -> None:
        """Return when the scheduler has stored the requests. One call at a time. Raises ValueError when it refuses one,
        Full, Unanswered."""
        self._refusal = None
        self._requests = list(payloads)
        await self._notify()
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: not self._requests or self._refusal is not None)
        except TimeoutError:
            raise Unanswered(f"no front end has stored the request within {within_s} s") from None
        finally:
            if self._requests:  # refused or given up: the next one has another number, and another call
                self._first += len(self._requests)
                self._requests = []
                if self._call is not None:
                    self._call.cancel()
        if self._refusal is not None:
            raise self._refusal

    def _more_metadata(self) -> Mapping[str, str]:
        self._written = 0
        return {"remuda-acknowledge": f"{self._token}:{self._first}"}

    async def _is_mended(self, error: RpcError) -> bool:
        if error.code() in _OF_REQUESTS and self._requests:
            self._refusal = error_of(error)
            await self._notify()
            return True
        return await super()._is_mended(error)

    async def _exchange(self, call: Any) -> None:
        writing = asyncio.get_running_loop().create_task(self._write(call))
        try:
            while (payload := await call.read()) is not grpc.aio.EOF:
                if payload:
                    await self._receive(self._kind, self._response.FromString(payload))
                else:
                    await self._acknowledged()
        finally:
            writing.cancel()
            await asyncio.wait([writing])

    async def _write(self, call: Any) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader gets the status
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: len(self._requests) > self._written)
                    payload = self._requests[self._written]
                    self._written += 1
                await call.write(payload)

    async def _acknowledged(self) -> None:
        if self._requests:
            self._requests.pop(0)
            self._first += 1
            self._written -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


CONVERSATIONS: Final = "/remuda.v1.ResourceManager"


class GrpcConversation(ReopenedStream):
    """The stream of `remuda.v1.ResourceManager`: the scheduler's questions, scheduling states, events and dead letters.

    `questions`: by kind of question, the coroutine function that answers. `opened` is set when the front end has
    accepted the stream: messages of the scheduler before that are lost."""

    def __init__(
        self,
        hello: rm_pb2.Hello,
        questions: Mapping[str, Callable[..., Awaitable[Any]]],
        open_channel: OpenChannel,
        metadata: Metadata,
        receive: Receive,
        report: Report,
    ) -> None:
        super().__init__(f"{CONVERSATIONS}/Converse", open_channel, metadata, receive, report)
        self._hello = hello
        self._questions = questions
        self._writing = asyncio.Lock()  # gRPC takes one message at a time
        self._answering: set[asyncio.Task[None]] = set()
        self.opened = asyncio.Event()

    async def _exchange(self, call: Any) -> None:
        try:
            await call.write(rm_pb2.FromResourceManager(hello=self._hello).SerializeToString())
            await call.initial_metadata()
            self.opened.set()
            while (payload := await call.read()) is not grpc.aio.EOF:
                await self._take(call, rm_pb2.ToResourceManager.FromString(payload))
        finally:
            for task in self._answering:
                task.cancel()

    async def _take(self, call: Any, message: rm_pb2.ToResourceManager) -> None:
        match message.WhichOneof("message"):
            case "question":
                task = asyncio.get_running_loop().create_task(self._answer(call, message.question))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case "container":
                await self._receive("container", message.container)
            case "event":
                await self._receive("event", [message.event])
            case "dead_letter":
                record = message.dead_letter
                await self._receive("dead_letter", DeadLetter(record.message, int(record.referenceID or 0)))

    async def _answer(self, call: Any, question: rm_pb2.Question) -> None:
        answer = rm_pb2.Answer(number=question.number)
        kind = question.WhichOneof("question") or ""
        ask = self._questions.get(kind)
        try:
            if ask is None:
                answer.refusal = f"the RM has no answer to {kind}"
            elif kind == "state_dump":
                answer.state_dump = await ask()
            else:
                _set(answer, kind, await ask(getattr(question, kind)))
        except Exception as error:  # noqa: BLE001 - the front end gets it, and the person that reads the refusal
            answer.refusal = f"{type(error).__name__}: {error}"
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it has ended: a refusal
            async with self._writing:
                await call.write(rm_pb2.FromResourceManager(answer=answer).SerializeToString())


def _set(answer: rm_pb2.Answer, kind: str, given: Any) -> None:
    """`given`: the response to a question of this kind, or the reason of a refusal."""
    if kind == "batch_predicates":
        answer.batch_predicates.verdicts.extend(given)
    elif isinstance(given, si.PreemptionPredicatesResponse):
        answer.preemption_predicates.CopyFrom(given)
    elif given:
        answer.refusal = str(given)
    elif kind == "preemption_predicates":
        answer.preemption_predicates.success = True


RpcError = Any  # grpc.aio.AioRpcError; grpcio has no types

_CODES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}
_REFUSED: Final = 422
_OUTAGE: Final = 503
# Statuses after which another attempt may succeed: the front end, the connection to it, or what is behind it is away.
TRANSIENT: Final = frozenset(
    (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN,
     grpc.StatusCode.INTERNAL)
)  # fmt: skip


def registration_failed(error: RpcError) -> RegistrationFailed:
    """The error of a refused registration, with the code that the same refusal has over NATS."""
    code = _CODES.get(error.code(), _OUTAGE)
    return RegistrationFailed(error.details() or "", _REFUSED if _name(error) == "REFUSED" else code)


def is_report_requested(error: RpcError) -> bool:
    """Whether the status says that the scheduler has lost the state of the RM and wants a report."""
    return error.code() is grpc.StatusCode.FAILED_PRECONDITION and _name(error) == "REPORT_REQUESTED"


def error_of(error: RpcError) -> Exception:
    """The error that the RM gets for the status with which a stream has ended."""
    match error.code():
        case grpc.StatusCode.INVALID_ARGUMENT:
            return ValueError(error.details())
        case grpc.StatusCode.ABORTED:
            return Superseded(error.details())
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Full(error.details())
        case grpc.StatusCode.PERMISSION_DENIED:
            return PermissionError(error.details())
        case code if code in TRANSIENT:
            return Unanswered(f"{code.name}: {error.details()}")
        case code:
            return BusError(f"{code.name}: {error.details()}")


def _name(error: RpcError) -> str:
    """`ErrorInfo.reason` of the details; empty without one."""
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    try:
        details = status_pb2.Status.FromString(packed).details
        for detail in details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info):
                return str(info.reason)
    except DecodeError:
        pass  # not of our front end
    return ""
