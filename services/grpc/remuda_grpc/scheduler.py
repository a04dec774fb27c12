"""The RPCs of `si.v1.Scheduler` (000, RPC Interface)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn

import grpc

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus
from remuda_bus.untrusted import Malformed, number_in
from remuda_grpc import limits, metrics
from remuda_grpc.identity import Clients
from remuda_grpc.requests import AcknowledgedRequests, RequestWriter, message_in, parse
from remuda_grpc.session import CallbackStream
from remuda_grpc.sessions import Sessions
from remuda_grpc.status import Failure, invalid
from remuda_operations.operators import certificate_names
from remuda_proto.bounds import shown
from remuda_proto.names import RM_ID
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.callbacks import NOWHERE, Place

Context = Any  # grpc.aio.ServicerContext; grpcio has no types

# Metadata of a client: the headers of the wire contract, in lower case as HTTP/2 requires.
RM: Final = "remuda-rm"
REGISTRATION: Final = subjects.REGISTRATION.lower()
LOG_SEQ: Final = subjects.LOG_SEQ.lower()
LOG_FACT: Final = subjects.LOG_FACT.lower()
STORED: Final = "remuda-requests-stored"
# TOKEN:NUMBER of the first request of a stream: the client asks for acknowledgements, and may send requests again.
ACKNOWLEDGE: Final = "remuda-acknowledge"
_NUMBERED: Final = re.compile(r"([\w-]{1,32}):(0|[1-9][0-9]{0,14})", re.ASCII)
# extraConfig: the front end sends the heartbeats, so it says how often (docs/wire-contract.md, Heartbeats).
HEARTBEAT_INTERVAL: Final = "heartbeat.interval"
_FORWARDED: Final = (subjects.REGISTRATION, subjects.LOG_SEQ, subjects.LOG_HASH, subjects.TRACEPARENT)


class Scheduler:
    """Requests and responses are bytes: responses are the payloads of callbacks, unchanged."""

    def __init__(self, bus: Bus, sessions: Sessions, clients: Clients) -> None:
        self._bus = bus
        self._sessions = sessions
        self._clients = clients

    async def register_resource_manager(self, payload: bytes, context: Context) -> bytes:
        """Registers an RM. The response has the number of the registration in its metadata."""
        try:
            request = _registration(payload)
            self._check_client(context, request.rmID)
            metadata = metadata_of(context)
            headers = {name: metadata[name.lower()] for name in _FORWARDED if name.lower() in metadata}
            request.extraConfig[HEARTBEAT_INTERVAL] = f"{limits.HEARTBEAT_INTERVAL_S:g}s"
            with tracing.span("grpc.register", headers, rm=request.rmID) as span:
                sent = {**headers, **span.headers()}
                number = await self._sessions.register(request.rmID, request.SerializeToString(), sent, context.peer())
        except Failure as failure:
            await abort(context, failure)
        await context.send_initial_metadata(((REGISTRATION, str(number)),))
        return si.RegisterResourceManagerResponse().SerializeToString()

    def stream(self, kind: str) -> Callable[[Any, Context], Awaitable[None]]:
        """Returns the behaviour of `UpdateApplication`, `UpdateAllocation` or `UpdateNode`."""

        async def update(_: Any, context: Context) -> None:
            writer: RequestWriter | None = None
            try:
                rm_id, first = await self._rm_of(kind, context)
                metadata = metadata_of(context)
                stated, after = position_in(metadata)
                callbacks = await self._sessions.open(rm_id, kind, context.peer(), stated, after)
                trace = {name: metadata[name] for name in (subjects.TRACEPARENT,) if name in metadata}
                responses = Responses(context)
                acknowledged = _acknowledged(metadata, responses)
                writer = RequestWriter(self._bus, rm_id, kind, callbacks, trace, acknowledged)
                try:
                    await context.send_initial_metadata(((REGISTRATION, str(callbacks.registration)),))
                    await _exchange(context, writer, responses, callbacks, first)
                finally:
                    await callbacks.close()
            except Failure as failure:
                await abort(context, failure, writer)

        return update

    async def _rm_of(self, kind: str, context: Context) -> tuple[str, bytes | None]:
        """The RM of a stream, from its metadata or its first request; and that request, if it was read."""
        rm_id = metadata_of(context).get(RM)
        first: bytes | None = None
        if rm_id is None:
            first = await context.read()
            if first is grpc.aio.EOF:
                raise invalid(RM, f"the stream ended before its first request, and without the metadata {RM}")
            rm_id = parse(kind, first).rmID
        check_rm_id(rm_id)
        self._check_client(context, rm_id)
        return rm_id, first

    def _check_client(self, context: Context, rm_id: str) -> None:
        self._clients.check(certificate_names(context.auth_context()), rm_id)


class Responses:
    """Writes the responses of one stream, from several tasks."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = asyncio.Lock()  # gRPC takes one at a time

    async def write(self, payload: bytes) -> None:
        async with self._lock:
            await self._context.write(payload)

    async def acknowledge(self, count: int) -> None:
        """Writes an empty response for each of so many requests, which are durable."""
        for _ in range(count):
            await self.write(b"")


async def _exchange(
    context: Context, writer: RequestWriter, responses: Responses, callbacks: CallbackStream, first: bytes | None
) -> None:
    """Read requests and send callbacks until the client cancels. A client that sends no more requests still gets
    callbacks. Raises Failure."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read(context, writer, first))
            tasks.create_task(writer.run())
            tasks.create_task(_send(responses, callbacks))
    except* Failure as failures:
        raise first_failure(failures) from None


async def _read(context: Context, writer: RequestWriter, payload: bytes | None) -> None:
    while True:
        if payload is not None:
            await writer.add(payload)
        payload = await context.read()
        if payload is grpc.aio.EOF:
            await writer.end()
            return


async def _send(responses: Responses, callbacks: CallbackStream) -> None:
    while True:
        message = await callbacks.next()
        await responses.write(message.payload)
        tracing.mark("grpc.callback", message.headers, rm=subjects.rm_of(message.subject))


def first_failure(failures: BaseExceptionGroup[Failure]) -> Failure:
    failure = failures.exceptions[0]
    return first_failure(failure) if isinstance(failure, BaseExceptionGroup) else failure


async def abort(context: Context, failure: Failure, writer: RequestWriter | None = None) -> NoReturn:
    """Ends the RPC. The trailing metadata of a stream has the number of requests that are durable."""
    metrics.RPCS.labels(failure.code.name).inc()
    trailing: tuple[tuple[str, str | bytes], ...] = failure.trailing_metadata()
    if writer is not None:
        trailing = (*trailing, (STORED, str(writer.stored)))
    await context.abort(failure.code, failure.message, trailing)
    raise failure  # `abort` has raised


def metadata_of(context: Context) -> dict[str, str]:
    return dict(context.invocation_metadata() or ())


def _acknowledged(metadata: Mapping[str, str], responses: Responses) -> AcknowledgedRequests | None:
    """None: the client does not number its requests. Raises Failure INVALID_ARGUMENT."""
    given = metadata.get(ACKNOWLEDGE)
    if given is None:
        return None
    numbered = _NUMBERED.fullmatch(given)
    if numbered is None:
        expected = "1 to 32 of A-Z a-z 0-9 _ -, a colon, and the number of the first request"
        raise invalid(ACKNOWLEDGE, f"{ACKNOWLEDGE} {shown(given)}: expected {expected}")
    return AcknowledgedRequests(numbered[1], int(numbered[2]), responses.acknowledge)


def _registration(payload: bytes) -> si.RegisterResourceManagerRequest:
    """Raises Failure INVALID_ARGUMENT."""
    request: si.RegisterResourceManagerRequest = message_in(si.RegisterResourceManagerRequest, payload)
    check_rm_id(request.rmID)
    return request


def check_rm_id(rm_id: str) -> None:
    if not RM_ID.matches(rm_id):
        raise invalid("rmID", f"rmID {shown(rm_id)}: expected {RM_ID.expected}")


def position_in(metadata: Mapping[str, str]) -> tuple[int, Place]:
    """Returns the registration that the client means (0: the newest), and the last callback of this kind that it has
    processed. Raises Failure INVALID_ARGUMENT.
    """
    try:
        stated = number_in(metadata, REGISTRATION, 0)
        if LOG_SEQ not in metadata:
            return stated, NOWHERE
        return stated, (number_in(metadata, LOG_SEQ), number_in(metadata, LOG_FACT, limits.LAST_FACT))
    except Malformed as error:
        raise invalid(str(error).split()[0].rstrip(":"), str(error)) from None
