"""The common part of the schedulers of all transports: a session of each RM, and where its requests go."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Protocol

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.callee import Callee
from remuda_sdk.api.interface import ResourceManagerCallback, SchedulerAPI
from remuda_sdk.resource_manager.request_encoding import Request, check_kind


class Session(Protocol):
    """A registered RM. `failed`: is done when the session has ended by an error, with that error."""

    failed: asyncio.Future[None]

    async def send(self, kind: str, request: Request) -> None:
        """Return when the request is stored."""
        ...

    async def close(self) -> None: ...


class SchedulerOfSessions(SchedulerAPI):
    """A scheduler with one session of each RM."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._failed: asyncio.Future[None] | None = None

    @abstractmethod
    async def _open(self, request: si.RegisterResourceManagerRequest, callee: Callee) -> Session:
        """Connect and register. Raises RegistrationFailed."""

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
