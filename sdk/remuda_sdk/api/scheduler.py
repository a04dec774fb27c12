"""Schedulers as SchedulerAPI: the common part of all transports, and the scheduler on a bus.

A scheduler has one session for each RM that is registered here. The bus is that of NATS servers, or of a scheduler in
this process.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from remuda_bus.bus import Bus
from remuda_bus.nats import Access
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.interface import Callee, ResourceManagerCallback, SchedulerAPI
from remuda_sdk.resource_manager import ResourceManager
from remuda_sdk.resource_manager.arguments import seconds
from remuda_sdk.resource_manager.client import ClientOptions
from remuda_sdk.resource_manager.registration import HEARTBEAT_INTERVAL
from remuda_sdk.resource_manager.requests import Request, check_kind


@dataclass(frozen=True, slots=True)
class Options:
    """How a SchedulerAPI connects: the arguments of `connect`, checked. Times in seconds."""

    access: Access | None = None
    heartbeat_s: float | None = None
    connect_within_s: float = 10.0
    register_within_s: float = 20.0
    retry_for_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises ValueError, which names the argument."""
        for name in ("connect_within_s", "register_within_s", "retry_for_s"):
            seconds(name, getattr(self, name))
        if self.heartbeat_s is not None:
            seconds("heartbeat_s", self.heartbeat_s, 0.001)


class Session(Protocol):
    """A registered RM. `failed` is done, with the error, when an error has ended the session."""

    failed: asyncio.Future[None]

    async def send(self, kind: str, request: Request) -> None:
        """Send a request of a kind. Returns when the scheduler has stored the request."""
        ...

    async def close(self) -> None: ...


class SchedulerOfSessions(SchedulerAPI):
    """A scheduler with one session for each RM. A transport defines how a session is opened."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._failed: asyncio.Future[None] | None = None

    @abstractmethod
    async def _open(self, request: si.RegisterResourceManagerRequest, callee: Callee) -> Session:
        """Connect an RM and register it. Raises RegistrationFailed."""

    async def register_resource_manager(
        self, request: si.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si.RegisterResourceManagerResponse:
        return await self.register(request, Callee(callback))

    async def register(
        self, request: si.RegisterResourceManagerRequest, callee: Callee
    ) -> si.RegisterResourceManagerResponse:
        former = self._sessions.pop(request.rmID, None)
        if former is not None:
            await former.close()
        own = si.RegisterResourceManagerRequest()
        own.CopyFrom(request)
        session = self._sessions[request.rmID] = await self._open(own, callee)
        session.failed.add_done_callback(self._session_failed)
        return si.RegisterResourceManagerResponse()

    async def update_allocation(self, request: si.AllocationRequest) -> None:
        await self._send("allocation", request)

    async def update_application(self, request: si.ApplicationRequest) -> None:
        await self._send("application", request)

    async def update_node(self, request: si.NodeRequest) -> None:
        await self._send("node", request)

    async def update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        await self._send("configuration", request)

    async def wait(self) -> None:
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
            for session in self._sessions.values():
                if session.failed.done():
                    self._session_failed(session.failed)
        await asyncio.shield(self._failed)

    async def _send(self, kind: str, request: Request) -> None:
        check_kind(kind, request)
        session = self._session_of(request)
        if session.failed.done():
            session.failed.result()
        if not request.rmID:
            [rm_id] = self._sessions
            named = type(request)(rmID=rm_id)
            named.MergeFrom(request)  # type: ignore[arg-type]
            request = named
        await session.send(kind, request)

    def _session_of(self, request: Request) -> Session:
        if request.rmID in self._sessions:
            return self._sessions[request.rmID]
        if not request.rmID and len(self._sessions) == 1:
            return next(iter(self._sessions.values()))
        registered = ", ".join(map(repr, self._sessions)) or "none yet"
        raise ValueError(f"rmID {request.rmID!r}: expected an RM that is registered here ({registered})")

    def _session_failed(self, failed: asyncio.Future[None]) -> None:
        if failed.cancelled():
            return
        error = failed.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _close_sessions(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        if self._failed is not None and not self._failed.done():
            self._failed.cancel()


BusOfRm = Callable[[str], Awaitable[Bus]]


class BusScheduler(SchedulerOfSessions):
    """The scheduler on a bus. `start` prepares connections, and returns the function that makes the connection of an
    RM; each RM has a connection of its own. The connections end with the stack."""

    def __init__(self, start: Callable[[AsyncExitStack], Awaitable[BusOfRm]], options: Options) -> None:
        super().__init__()
        self._start = start
        self._options = options
        self._stack = AsyncExitStack()
        self._bus_of_rm: BusOfRm | None = None

    async def __aenter__(self) -> Self:
        self._bus_of_rm = await self._start(self._stack)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close_sessions()
        finally:
            self._bus_of_rm = None
            await self._stack.aclose()

    async def _open(self, request: si.RegisterResourceManagerRequest, callee: Callee) -> Session:
        if self._bus_of_rm is None:
            raise RuntimeError("not connected: use `async with connect(url) as scheduler`")
        options = self._options
        if options.heartbeat_s is not None:
            request.extraConfig[HEARTBEAT_INTERVAL] = f"{round(options.heartbeat_s * 1_000)}ms"
        how = ClientOptions(
            confirm_releases=False, heartbeat_s=options.heartbeat_s, connect_within_s=options.connect_within_s,
            register_within_s=options.register_within_s, retry_for_s=options.retry_for_s,
        )  # fmt: skip
        rm = ResourceManager(await self._bus_of_rm(request.rmID), request, how)
        _set_handlers(rm, callee)
        await rm.__aenter__()
        return BusSession(rm)


class BusSession:
    """A `Session` on a bus."""

    def __init__(self, rm: ResourceManager) -> None:
        self._rm = rm
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_task(rm.handle_for_ever())

    async def send(self, kind: str, request: Request) -> None:
        await self._rm.send(kind, request)

    async def close(self) -> None:
        self.failed.cancel()
        await asyncio.wait([self.failed])
        error = None if self.failed.cancelled() else self.failed.exception()  # `wait` and updates have raised it
        await self._rm.__aexit__(None if error is None else type(error), error, None)


def _set_handlers(rm: ResourceManager, callee: Callee) -> None:
    rm.on_allocation(callee.method("update_allocation"))
    rm.on_application(callee.method("update_application"))
    rm.on_node(callee.method("update_node"))
    rm.on_container(callee.method("update_container_scheduling_state"))
    rm.on_dead_letter(callee.method("update_refused"))
    if callee.defines("send_event"):
        send_event = callee.method("send_event")
        rm.on_event(lambda event: send_event([event]))
    if callee.defines("report_requested"):
        rm.on_report_requested(callee.method("report_requested"))
    on_question = {
        "predicates": rm.on_predicates,
        "batch_predicates": rm.on_batch_predicates,
        "preemption_predicates": rm.on_preemption_predicates,
        "state_dump": rm.on_state_dump,
    }
    for kind, ask in callee.questions().items():
        on_question[kind](ask)
