"""The scheduler over NATS, or on the bus of a scheduler in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from remuda_bus.bus import Bus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.callee import Callee
from remuda_sdk.api.options import Options
from remuda_sdk.api.scheduler import SchedulerOfSessions, Session
from remuda_sdk.resource_manager import ResourceManager
from remuda_sdk.resource_manager.registration import HEARTBEAT_INTERVAL
from remuda_sdk.resource_manager.request_encoding import Request

BusOfRm = Callable[[str], Awaitable[Bus]]


class BusScheduler(SchedulerOfSessions):
    """`start`: prepares the connections of RMs, of which each has one to itself, until the stack is left."""

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
        rm = ResourceManager(
            await self._bus_of_rm(request.rmID), request, register=True, events=False, confirm_releases=False,
            heartbeat_s=options.heartbeat_s, connect_within_s=options.connect_within_s,
            register_within_s=options.register_within_s, retry_for_s=options.retry_for_s,
        )  # fmt: skip
        _set_handlers(rm, callee)
        await rm.__aenter__()
        return BusSession(rm)


class BusSession:
    """`remuda_sdk.api.scheduler.Session`."""

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
