"""The scheduler over gRPC (docs/grpc.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import grpc

from remuda_bus import subjects
from remuda_bus.bus import Unanswered
from remuda_bus.nats import Access
from remuda_bus.retry import retry
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.grpc_stream import (
    CONVERSATIONS,
    METHODS,
    RECONNECT,
    SERVICE,
    GrpcConversation,
    GrpcStream,
    error_of,
    registration_failed,
)
from remuda_sdk.api.interface import Callee
from remuda_sdk.api.scheduler import Options, SchedulerOfSessions, Session
from remuda_sdk.resource_manager.handlers import BATCH, PREDICATES, PREEMPTION_PREDICATES
from remuda_sdk.resource_manager.registration import EVENTS, RESYNC, ReportRequested
from remuda_sdk.resource_manager.requests import Request, sized

# The port that schedulers of this family listen on, for URLs without one.
GRPC_PORT: Final = 3333
# A front end accepts requests of 4 MiB: larger ones are sent in parts.
REQUEST_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024
# Callbacks that wait for the RM. Beyond them nothing is read, and the front end holds them back.
WAITING_CALLBACKS: Final = 1_000
# A front end that answers no ping for this long is gone.
KEEPALIVE_INTERVAL_MS: Final = 5_000
KEEPALIVE_TIMEOUT_MS: Final = 5_000

REGISTRATION: Final = subjects.REGISTRATION.lower()
_CHANNEL: Final = (
    ("grpc.use_local_subchannel_pool", 1),  # each RM has a connection of its own
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
_METHODS: Final = {
    "application": "update_application",
    "allocation": "update_allocation",
    "node": "update_node",
    "container": "update_container_scheduling_state",
    "event": "send_event",
    "dead_letter": "update_refused",
}


class FrontEnds:
    """The front ends of a URL, which are tried in turn."""

    def __init__(self, url: str, access: Access | None) -> None:
        """Raises ValueError for a wrong address, and for a file of the credentials that cannot be read."""
        scheme, _, rest = url.partition("://")
        self._addresses = [_with_port(url, one) for one in rest.rstrip("/").split(",")]
        self._credentials = _credentials(access or Access()) if scheme == "grpcs" else None
        self._next = 0

    def __len__(self) -> int:
        return len(self._addresses)

    def channel(self) -> Any:
        """A channel to the next front end."""
        address = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, _CHANNEL)
        return grpc.aio.secure_channel(address, self._credentials, _CHANNEL)


class GrpcScheduler(SchedulerOfSessions):
    """The scheduler over gRPC, with a connection for each RM."""

    def __init__(self, url: str, options: Options) -> None:
        super().__init__()
        self._url = url
        self._options = options
        FrontEnds(url, options.access)  # a mistake is reported now

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close_sessions()

    async def _open(self, request: si.RegisterResourceManagerRequest, callee: Callee) -> Session:
        subjects.check_rm_id(request.rmID)
        session = GrpcSession(FrontEnds(self._url, self._options.access), request, callee, self._options)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session


class GrpcSession:
    """A `remuda_sdk.api.scheduler.Session` over gRPC: one channel with four streams, and one queue of callbacks."""

    def __init__(
        self, front_ends: FrontEnds, request: si.RegisterResourceManagerRequest, callee: Callee, options: Options
    ) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._front_ends = front_ends
        self._request = request
        self._options = options
        self._channel: Any = None
        self._registration = ""
        self._sending = asyncio.Lock()
        self._callbacks: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._handled = asyncio.Event()
        self._methods = {kind: callee.method(name) for kind, name in _METHODS.items()}
        self._report_method = callee.method("report_requested") if callee.defines("report_requested") else None
        self._registering = asyncio.Lock()
        ways = (self._open_channel, self._metadata, self._receive, self._report)
        self._streams = {kind: GrpcStream(kind, *ways) for kind in METHODS}
        self._tasks: list[asyncio.Task[None]] = []
        questions = callee.questions()
        declare(request, questions, callee.defines("send_event"))
        hello = rm_pb2.Hello(rm_id=request.rmID, events=request.extraConfig.get(EVENTS, "") == "true")
        self._conversation = GrpcConversation(hello, questions, *ways)

    async def start(self) -> None:
        """Register, and open the streams. Raises RegistrationFailed."""
        await self._register()
        loop = asyncio.get_running_loop()
        for kind, stream in self._streams.items():
            self._run(stream.run(), kind)
        self._run(self._handle(), "callbacks")
        self._run(self._conversation.run(), "conversation")
        # Messages of the scheduler before the conversation is open are lost.
        opened = loop.create_task(self._conversation.opened.wait())
        waiting: list[asyncio.Future[Any]] = [opened, self.failed]
        await asyncio.wait(waiting, timeout=self._options.register_within_s, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self.failed.done():
            self.failed.result()

    async def send(self, kind: str, request: Request) -> None:
        if isinstance(request, si.UpdateConfigurationRequest):
            await self._update_configuration(request)
            return
        async with self._sending:
            sending = self._streams[kind].send(list(sized(request, REQUEST_BYTES)), self._options.retry_for_s)
            task = asyncio.get_running_loop().create_task(sending)
            try:
                await asyncio.wait([task, self.failed], return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    if self.failed.cancelled():  # not the caller is: this session is closed
                        raise Unanswered("the RM registers again, or its connection is closed")
                    self.failed.result()
                await task
            finally:
                task.cancel()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.failed.done():
            self.failed.cancel()
        if self._channel is not None:
            await self._channel.close()

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self.failed.done():
            return
        error = task.exception()
        if error is not None:
            self.failed.set_exception(error)

    async def _update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        policy = replace(RECONNECT, give_up_after_s=self._options.retry_for_s)
        async with self._sending:
            await retry(partial(self._call_update_configuration, request), policy, on=Unanswered)

    async def _call_update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        channel = await self._open_channel(None)
        method = channel.unary_unary(f"{CONVERSATIONS}/UpdateConfiguration")
        try:
            await method(
                request.SerializeToString(), metadata=tuple(self._metadata().items()), timeout=self._options.retry_for_s
            )
        except grpc.aio.AioRpcError as error:
            raise error_of(error) from None

    # Registration and streams

    async def _register(self) -> None:
        """Register with the front ends in turn, for as long as a registration may take. Raises RegistrationFailed."""
        until = asyncio.get_running_loop().time() + self._options.register_within_s
        while True:
            channel = await self._open_channel(self._channel)
            left_s = until - asyncio.get_running_loop().time()
            call = channel.unary_unary(f"{SERVICE}/RegisterResourceManager")(
                self._request.SerializeToString(), timeout=max(left_s, 0.0)
            )
            try:
                await call
            except grpc.aio.AioRpcError as error:
                now = asyncio.get_running_loop().time()
                if error.code() is not grpc.StatusCode.UNAVAILABLE or now + RECONNECT.first_pause_s >= until:
                    raise registration_failed(error) from None
                await asyncio.sleep(RECONNECT.first_pause_s)
                continue
            self._registration = dict(await call.initial_metadata()).get(REGISTRATION, "")
            return

    async def _report(self, ended: Mapping[str, str]) -> None:
        """Register again, once for all streams that have ended, and have the RM report. Raises ReportRequested if the
        RM has no method for that."""
        if self._report_method is None:
            raise ReportRequested(f"the scheduler has lost what it knew of {self._request.rmID!r}")
        async with self._registering:
            if ended[REGISTRATION] == self._registration:
                self._request.extraConfig[RESYNC] = "report"
                await self._register()
                self._run(self._report_method(), "report")

    async def _open_channel(self, failed: Any) -> Any:
        """The channel of this RM. All streams use one channel: a front end ends the streams that another front end
        has."""
        if self._channel is None or self._channel is failed:
            former, self._channel = self._channel, self._front_ends.channel()
            if former is not None:
                await former.close()
        return self._channel

    def _metadata(self) -> dict[str, str]:
        return {"remuda-rm": self._request.rmID, REGISTRATION: self._registration}

    # Callbacks

    async def _receive(self, kind: str, response: Any) -> None:
        """Queue a callback. Waits while the RM is behind, except while the RM waits for a request: the acknowledgement
        of the request comes behind the callbacks."""
        self._callbacks.put_nowait((kind, response))
        while self._callbacks.qsize() > WAITING_CALLBACKS and not self._is_sending():
            self._handled.clear()
            await self._handled.wait()

    def _is_sending(self) -> bool:
        return any(stream.is_waiting for stream in self._streams.values())

    async def _handle(self) -> None:
        while True:
            kind, response = await self._callbacks.get()
            await self._methods[kind](response)
            self._handled.set()


def declare(request: si.RegisterResourceManagerRequest, questions: Container[str], events: bool) -> None:
    """Declare in the request which questions the RM answers, and whether it reads events (000, extraConfig)."""
    if events:
        request.extraConfig[EVENTS] = "true"
    if "batch_predicates" in questions or "predicates" in questions:
        request.extraConfig[PREDICATES] = BATCH if "batch_predicates" in questions else "true"
    if PREEMPTION_PREDICATES in questions:
        request.extraConfig[PREEMPTION_PREDICATES] = "true"


def _with_port(url: str, address: str) -> str:
    host, separator, port = address.rpartition(":")
    if not separator or address.endswith("]"):
        host, port = address, str(GRPC_PORT)
    if not host or not port.isdigit() or "/" in address:
        raise ValueError(f"url {url!r}: {address!r}: expected HOST:PORT")
    return f"{host}:{port}"


def _credentials(access: Access) -> Any:
    """The credentials of a channel with TLS. Without a CA, the CAs of the system count."""
    ca, key, cert = (None if path is None else path.read_bytes() for path in (access.ca, access.key, access.cert))
    return grpc.ssl_channel_credentials(ca, key, cert)
