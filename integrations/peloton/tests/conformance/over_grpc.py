"""A server with a core of its own in a thread, and a client that speaks to it as YARPC clients do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_peloton.core import Core
from remuda_peloton.rules.access import Clients
from remuda_peloton.shell.front import RESMGR, RESPOOL, Front
from remuda_peloton.shell.machine import ResmgrMachine
from remuda_peloton.shell.main import wall_clock_ms
from remuda_peloton.shell.request_handler import RequestHandler
from remuda_peloton.shell.server import Server
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_replication.leader import Leader
from remuda_replication.log import LogWriter, Position
from remuda_replication.snapshots import Snapshots

WITHIN_S = 20.0
HEADERS = (("rpc-caller", "peloton-jobmgr"), ("rpc-service", "peloton-resmgr"), ("rpc-encoding", "proto"))
SERVICES = {"resmgr": RESMGR, "respool": RESPOOL}

Call = Callable[[str, str, Message, type[Message]], Message]


@asynccontextmanager
async def leading(
    core: Core,
    clients: Clients,
    credentials: grpc.ServerCredentials | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> AsyncIterator[Server]:
    """Serve the core by a leader on a bus in memory. Nothing happens by itself."""
    bus, log_id = MemoryBus(), subjects.peloton_log("default")
    machine = ResmgrMachine(log_id, core, None)
    handler = RequestHandler(bus, log_id, core, lambda: True)
    kept = Snapshots(bus, machine, ResmgrSettings())
    writer = LogWriter(bus, log_id, Position())
    handler.leader = leader = Leader(bus, machine, 1, writer, clock_ms or wall_clock_ms, kept)
    leader.applied = handler.applied
    server = Server(Front(handler, clients), "127.0.0.1:0", credentials)
    running = asyncio.create_task(leader.lead(lambda: True))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextmanager
def served(core: Core, clock_ms: Callable[[], int] | None = None) -> Iterator[Call]:
    """Serve the core (`leading`). Others must not change the core while a call is under way."""
    loop, ports, end = asyncio.new_event_loop(), [], asyncio.Event()
    started = threading.Event()

    async def serve() -> None:
        async with leading(core, Clients(), None, clock_ms) as server:
            ports.append(server.port)
            started.set()
            await end.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(WITHIN_S)
        with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:

            def call(service: str, rpc: str, request: Message, response: type[Message]) -> Message:
                method: Any = channel.unary_unary(f"/{SERVICES[service]}/{rpc}")
                payload, done = method.with_call(request.SerializeToString(), timeout=WITHIN_S, metadata=HEADERS)
                assert ("rpc-service", "peloton-resmgr") in done.trailing_metadata()
                return response.FromString(payload)

            yield call
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(WITHIN_S)
        loop.close()
