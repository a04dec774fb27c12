"""The asyncio client of an RM: `async with ResourceManager.connect(url, "rm-1") as rm: ...`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, ConsumerGone, HistoryChanged, Message, NoResponders, Refused, Unanswered
from remuda_bus.nats import connect
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.untrusted import number_in
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments
from remuda_sdk.resource_manager.callback_consumer import CallbackConsumer
from remuda_sdk.resource_manager.callbacks import Callback, Session, parse_callback
from remuda_sdk.resource_manager.handlers import HandlersOfRm, answer_state_dump, call_handler, serve_predicates
from remuda_sdk.resource_manager.registration import (
    EVENTS,
    INTERNAL,
    OUTAGE,
    POSITION_REPORT_INTERVAL_S,
    REFUSED,
    RESUMED_PAUSE_S,
    RESYNC,
    RESYNCS,
    Heartbeat,
    RegistrationFailed,
    ReportRequested,
    Resync,
    Superseded,
    registration_request,
    resume,
)
from remuda_sdk.resource_manager.requests import RequestEncoder, RequestPublisher, RequestsOfRm, Traced

# A registration finds no rmproxy for a moment after a start or a take-over. It is sent again for so long at most
# (shorter when `register_within_s` is).
RESPONDERS_TIMEOUT_S = 3.0
RESPONDERS_RETRY = RetryPolicy(0.1)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a ResourceManager connects and what it receives: the arguments of `ResourceManager.connect` that are no part
    of the registration. Times in seconds."""

    register: bool = True
    events: bool = False
    confirm_releases: bool = True
    heartbeat_s: float | None = None
    connect_within_s: float | None = 10.0
    register_within_s: float = 20.0
    retry_for_s: float = 30.0


class ResourceManager(HandlersOfRm, RequestsOfRm):
    """The client of one RM: `async with ResourceManager.connect(url, rm_id) as rm: ...`.

    Calls that send requests are described in `RequestsOfRm`. Requests keep the order of the calls, even of calls that
    run at the same time.

    Callbacks arrive in the loop `async for callback in rm.callbacks()` or in handlers (`on_allocation` and so on), not
    both. `on_predicates` and `on_preemption_predicates` answer the scheduler's questions.
    """

    def __init__(self, url: str | Bus, registration: si.RegisterResourceManagerRequest, options: ClientOptions) -> None:
        super().__init__()
        self._url = url
        self._registration = registration
        self._options = options
        self._session = Session(registration.rmID)
        self._encoder = RequestEncoder(registration.rmID)
        self._bus: Bus | None = None
        self._request_publisher: RequestPublisher | None = None
        self._callback_consumer: CallbackConsumer | None = None
        self._callback_loop: object = None  # identifies the latest loop over callbacks; an abandoned loop must stop
        self._handling: asyncio.Task[None] | None = None
        self._heartbeat: Heartbeat | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._is_registration_in_doubt = False  # whether one may have succeeded although its answer was lost
        self._superseded: Superseded | None = None

    @classmethod
    def connect(
        cls,
        url: str | Bus,
        rm_id: str,
        *,
        policy_group: str = "",
        config: str = "",
        extra_config: Mapping[str, str] | None = None,
        version: str = "",
        build_info: Mapping[str, str] | None = None,
        register: bool = True,
        events: bool = False,
        confirm_releases: bool = True,
        resync: Resync | None = None,
        heartbeat_s: float | None = None,
        connect_within_s: float | None = 10.0,
        register_within_s: float = 20.0,
        retry_for_s: float = 30.0,
    ) -> Self:
        """Describe the RM. Nothing happens before `async with`, which connects and registers.

        `url`: the NATS servers, separated by commas; or a connected bus, which is closed at the end of the block.
        `rm_id`: 1 to 64 of `A-Z a-z 0-9 _ : -`. `config`: the text of a queues.yaml (empty: the configuration of
        `policy_group`, or the built-in one). `extra_config`: further settings of the registration (000, extraConfig).
        `register`: register on entry; False: call `register()` later.

        `events`: receive events with the callbacks. `confirm_releases`: confirm the releases that the scheduler
        requests once their callback was processed.

        `resync`: the state that the scheduler keeps of an RM that has registered before. "report" (default): it is
        discarded, and the RM reports everything again. "replay": it is kept, and all unacknowledged callbacks are
        delivered again.

        `heartbeat_s`: the interval of heartbeats, in seconds. After three intervals without one, the scheduler
        allocates nothing for the RM until the next heartbeat. None: the scheduler expects no heartbeats.

        `connect_within_s`: the time limit of the first connection (None: none). `register_within_s`: that of a
        registration. `retry_for_s`: how long requests are retried while a stream is full or the server is away. All in
        seconds. Raises ValueError, which names the argument that is wrong."""
        registration = registration_request(
            rm_id, policy_group, config, extra_config, version, build_info, resync, heartbeat_s
        )
        if connect_within_s is not None:
            arguments.seconds("connect_within_s", connect_within_s)
        options = ClientOptions(
            register, events, confirm_releases, heartbeat_s, connect_within_s,
            arguments.seconds("register_within_s", register_within_s), arguments.seconds("retry_for_s", retry_for_s),
        )  # fmt: skip
        return cls(url, registration, options)

    @property
    def rm_id(self) -> str:
        return self._session.rm_id

    async def __aenter__(self) -> Self:
        """Connect and register. Raises RegistrationFailed; Unanswered when no server answers."""
        bus = self._bus = await self._connect()
        self._request_publisher = RequestPublisher(bus, self.rm_id, self._options.retry_for_s)
        self._heartbeat = Heartbeat(
            bus, self.rm_id, self._options.heartbeat_s or POSITION_REPORT_INTERVAL_S, self._position_headers
        )
        try:
            await self._answer_questions(bus)
            await bus.subscribe(subjects.report_request(self.rm_id), self._report_requested)
            if self._options.register:
                await self.register()
        except BaseException:
            await bus.close()
            raise
        self._start_handling()
        return self

    async def _connect(self) -> Bus:
        if not isinstance(self._url, str):
            return self._url
        return await connect(self._url, f"rm-{subjects.key_of(self.rm_id)}", timeout_s=self._options.connect_within_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection. Raises the error of a handler, unless the block has raised one."""
        failure = await self._stop_handling()
        await self._stop_reporting()
        await self._stop_heartbeat()
        if self._callback_consumer is not None:
            await self._callback_consumer.close()
        if self._bus is not None:
            await self._bus.close()
        if failure is not None and error is None:
            raise failure

    async def register(
        self, resync: Resync | None = None, *, config: str = "", extra_config: Mapping[str, str] | None = None
    ) -> None:
        """Register this RM, also repeatedly. Returns once the core has accepted the registration.

        `resync`, `config`: override those of `connect`. `extra_config`: settings beside those of `connect`. The
        scheduler handles requests that were published before first. Raises RegistrationFailed."""
        request = si.RegisterResourceManagerRequest()
        request.CopyFrom(self._registration)
        if resync is not None:
            request.extraConfig[RESYNC] = arguments.one_of("resync", resync, RESYNCS)
        if config:
            request.config = arguments.text("config", config)
        for key, value in arguments.text_map("extra_config", extra_config).items():
            if key not in request.extraConfig:
                request.extraConfig[key] = value
        reply = await self._ask_rmproxy(subjects.register(self.rm_id), request.SerializeToString(), "register")
        self._superseded = None
        number = self._connected_publisher().registration = number_in(reply.headers, subjects.REGISTRATION, 0)
        if self._callback_consumer is not None:
            await self._callback_consumer.registered(number)
        self._session.cursor.allow_gap()
        if self._heartbeat is not None:
            self._heartbeat.start()

    async def deregister(self) -> None:
        """End this RM: the scheduler discards its state, and publishes no callbacks any more. Raises RegistrationFailed
        when the scheduler refuses, Superseded."""
        # The consumer goes with the registration. It is closed before: its end is no fault.
        callback_consumer, former = self._callback_consumer, 0
        if callback_consumer is not None:
            former = await callback_consumer.registered(0)
        try:
            await self._ask_rmproxy(subjects.deregister(self.rm_id), b"", "deregister")
        except RegistrationFailed as failed:
            if callback_consumer is not None:
                await callback_consumer.registered(former)
            if failed.code == REFUSED:
                raise Superseded(failed.reason) from None
            raise
        await self._stop_heartbeat()

    async def _ask_rmproxy(self, subject: str, payload: bytes, kind: str) -> Message:
        """Send a request to rmproxy. No requests are published meanwhile, so each belongs to one registration."""
        publisher = self._connected_publisher()
        with tracing.span("rm.publish", rm=self.rm_id, kind=kind) as span:
            async with publisher.lock:
                if self._callback_consumer is not None:
                    await self._callback_consumer.acknowledge()
                self._is_registration_in_doubt = True
                headers = {**self._position_headers(), **span.headers()}
                try:
                    reply = await self._request(subject, payload, headers)
                except Refused as refusal:
                    self._is_registration_in_doubt = refusal.code >= INTERNAL
                    raise RegistrationFailed(refusal.reason, refusal.code) from None
                except Unanswered as error:
                    raise RegistrationFailed(f"no scheduler answers: {error}", OUTAGE) from error
                self._is_registration_in_doubt = False
                return reply

    async def _request(self, subject: str, payload: bytes, headers: dict[str, str]) -> Message:
        """Send the request, with retries while no rmproxy listens, as during its start: then no process has received
        it."""
        send = partial(self._connected().request, subject, payload, headers, self._options.register_within_s)
        give_up_after_s = min(self._options.register_within_s, RESPONDERS_TIMEOUT_S)
        policy = replace(RESPONDERS_RETRY, give_up_after_s=give_up_after_s)
        return await retry(send, policy, on=NoResponders)

    async def _on_consumer_gone(self, gone: ConsumerGone) -> None:
        """Return when the RM has a consumer again. Raises RegistrationFailed, Superseded."""
        if not self._is_registration_in_doubt:
            self._session.cursor.allow_repetition()
            try:
                await resume(self._connected(), self.rm_id, self._connected_publisher().registration, gone)
            except Superseded as over:
                if not self._is_registration_in_doubt:
                    self._superseded = over
                    await self._stop_heartbeat()
                    raise
        await asyncio.sleep(RESUMED_PAUSE_S)

    def _position_headers(self) -> dict[str, str]:
        """The headers that name the registration and the callback cursor."""
        return {**self._connected_publisher().registration_header(), **self._session.cursor.headers()}

    async def _report_requested(self, _: Message) -> None:
        """Handle the message that the scheduler has lost the state of this RM. The scheduler repeats the message until
        the RM has registered."""
        if self._reporting is None or self._reporting.done():
            self._reporting = asyncio.get_running_loop().create_task(self._report(), name=f"report of {self.rm_id}")

    async def _report(self) -> None:
        if self._report_handler is None:
            await self._open_callback_consumer().fail(
                ReportRequested(f"the scheduler has lost what it knew of {self.rm_id!r}")
            )
            return
        try:
            self._session.begin_anew()
            await self.register("report")
            await call_handler(self._report_handler)
        except RegistrationFailed as failed:
            if failed.code < INTERNAL:
                await self._open_callback_consumer().fail(failed)
        except Exception as error:  # noqa: BLE001 - the loop over callbacks raises it
            await self._open_callback_consumer().fail(error)

    async def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            await self._heartbeat.stop()

    async def _stop_reporting(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])

    # Callbacks

    async def callbacks(self) -> AsyncIterator[Callback]:
        """Yield all callbacks, in order, without end.

        A callback is acknowledged when the loop requests the next one. If the loop ends before, the callback is
        delivered again. Read a callback's fields in the order of their declaration: that of the changes. Raises
        Superseded, HistoryChanged, ReportRequested; RuntimeError when another loop or a handler takes the callbacks."""
        taker = self._callback_loop = object()
        callback_consumer = self._open_callback_consumer()
        if self._superseded is not None:
            raise self._superseded
        while True:
            message = await self._first(callback_consumer)
            if self._callback_loop is not taker:
                raise RuntimeError("callbacks are taken by another loop, or by handlers")
            callback, taken = parse_callback(message), self._session.taken(message)
            tracing.mark("rm.callback", message.headers, rm=self.rm_id)
            yield callback
            await self._confirm_if_asked(callback)
            taken()
            await callback_consumer.done(message)

    def skip_callbacks(self, log_seq: int) -> None:
        """Count the callbacks of commits up to `log_seq` as processed: the RM has read a state that contains them
        (docs/queries.md). Call it before the first callback is taken."""
        self._session.cursor.skip_to(log_seq)

    async def _first(self, callback_consumer: CallbackConsumer) -> Message:
        try:
            return await callback_consumer.first(self._session.is_new)
        except HistoryChanged:
            if self._heartbeat is not None:
                # rmproxy compares the cursor with the log as well, and halts this RM.
                await self._heartbeat.publish_once()
            raise

    async def handle_for_ever(self) -> None:
        """Wait while handlers process callbacks. Raises the error of a handler; RuntimeError when there is no
        handler."""
        if self._handling is None:
            raise RuntimeError("there is no handler")
        await asyncio.shield(self._handling)

    def _open_callback_consumer(self) -> CallbackConsumer:
        if self._callback_consumer is None:
            events = self._options.events or self._handlers.has(si.EventRecord)
            self._callback_consumer = CallbackConsumer(
                self._connected(), self.rm_id, events, self._connected_publisher().registration, self._on_consumer_gone
            )
        self._callback_consumer.open()
        return self._callback_consumer

    async def _answer_questions(self, bus: Bus) -> None:
        """Declare events and predicates, and answer questions."""
        declared = self._registration.extraConfig
        if self._options.events or self._handlers.has(si.EventRecord):
            declared[EVENTS] = "true"
        await serve_predicates(
            bus, self.rm_id, declared, self._predicates, self._batch_predicates, self._preemption_predicates
        )
        if self._state_dump is not None:
            answer = partial(answer_state_dump, self._state_dump)
            await bus.serve(subjects.question(self.rm_id, "state_dump"), answer, "state_dump")

    def _check_undeclared(self) -> None:
        if self._bus is not None:
            raise RuntimeError("questions are answered from the registration on: set their handlers before connecting")

    async def _confirm_if_asked(self, callback: Callback) -> None:
        if self._options.confirm_releases:
            releases = self._session.confirmations(callback)
            if releases:
                await self.confirm(*releases)

    def _start_handling(self) -> None:
        if self._bus is not None and self._handlers and self._handling is None:
            self._handling = asyncio.create_task(self._handle_all(), name=f"handlers of {self.rm_id}")

    async def _handle_all(self) -> None:
        async for callback in self.callbacks():
            await self._handlers.handle(callback)

    async def _stop_handling(self) -> BaseException | None:
        handling, self._handling = self._handling, None
        if handling is None:
            return None
        handling.cancel()
        await asyncio.wait([handling])
        return None if handling.cancelled() else handling.exception()

    async def _publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        return await self._publish_traced(kind, payloads)

    async def _publish_traced(self, kind: str, payloads: Iterable[bytes | Traced]) -> int:
        if self._superseded is not None:
            raise self._superseded
        return await self._connected_publisher().publish(kind, payloads)

    @property
    def _limit(self) -> int:
        return self._connected_publisher().limit

    def _connected_publisher(self) -> RequestPublisher:
        self._connected()
        assert self._request_publisher is not None
        return self._request_publisher

    def _connected(self) -> Bus:
        if self._bus is None:
            raise RuntimeError("not connected: use `async with ResourceManager.connect(...) as rm`")
        return self._bus
