"""A server with a core of its own in a thread, and a client that speaks to it as YARPC clients do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

from remuda_resmgr.core import Core
from remuda_resmgr.shell.host import Host
from remuda_resmgr.shell.periods import Periods, keep_time
from remuda_resmgr.shell.server import RESMGR, RESPOOL, Server

WITHIN_S = 20.0
HEADERS = (("rpc-caller", "peloton-jobmgr"), ("rpc-service", "peloton-resmgr"), ("rpc-encoding", "proto"))
SERVICES = {"resmgr": RESMGR, "respool": RESPOOL}

Call = Callable[[str, str, Message, type[Message]], Message]


@contextmanager
def served(
    core: Core,
    log: list[bytes] | None = None,
    clock_ms: Callable[[], int] | None = None,
    periods: Periods | None = None,
) -> Iterator[Call]:
    """Serve the core, which others must not change while a call is under way. `log`: commits are appended to it.
    `periods`: None: nothing happens by itself."""
    commits = [] if log is None else log
    loop, ports, end = asyncio.new_event_loop(), [], asyncio.Event()
    started = threading.Event()

    async def append(commit: bytes) -> None:
        commits.append(commit)

    async def serve() -> None:
        host = Host(core, append, clock_ms or (lambda: int(time.time() * 1_000)))
        server = Server(host, "127.0.0.1:0")
        tasks = [asyncio.create_task(host.run())]
        await server.start()
        ports.append(server.port)
        started.set()
        if periods is not None:
            tasks.append(asyncio.create_task(keep_time(host, periods, core.settings)))
        await end.wait()
        await server.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
