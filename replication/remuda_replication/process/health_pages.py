"""The health of a process as two pages over HTTP, for the system that runs it, and its metrics, for Prometheus.

`/livez`: the event loop runs. A process that does not answer should be restarted. `/readyz`: the process is connected,
JetStream answers, and the service works or stands by. A process that is not ready should be waited for: while the bus
is away, a restart mends nothing. `/metrics`: see docs/metrics.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from remuda_bus import metrics, subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.health import PROCESS_HEALTH, Health

# Of the health pages: the probe of the bus, and the request. No legitimate request is larger.
PROBE_TIMEOUT_S = 2.0
HEALTH_REQUEST_TIMEOUT_S = 5.0
HEALTH_REQUEST_BYTES = 8 * 1024


@asynccontextmanager
async def served(bus: Bus | None, port: int, health: Health = PROCESS_HEALTH, host: str = "") -> AsyncIterator[None]:
    """Serve the pages on `port`; 0: not at all. `host`: the address; empty: all addresses."""
    if not port:
        yield
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEALTH_REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(request, bus, health))
                await writer.drain()
        except (OSError, TimeoutError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a malformed or slow request gets no answer
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, host or None, port, limit=HEALTH_REQUEST_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        raise ValueError(f"health.port {port}, health.host {host!r}: cannot listen there: {why}") from None
    try:
        yield
    finally:
        server.close()


async def _answer(request: bytes, bus: Bus | None, health: Health) -> bytes:
    path = request.split(b" ")[1]
    if path == b"/metrics":
        return _page(200, *metrics.page(_header(request, b"accept")))
    code, status = await _status(path, bus, health)
    return _page(code, "application/json", json.dumps(status).encode() + b"\n")


def _header(request: bytes, name: bytes) -> str:
    """The value of a header, given in lower case; empty: the request does not have it."""
    for line in request.split(b"\r\n")[1:]:
        found, _, value = line.partition(b":")
        if found.strip().lower() == name:
            return value.strip().decode("latin-1")
    return ""


async def _status(path: bytes, bus: Bus | None, health: Health) -> tuple[int, dict[str, object]]:
    if path == b"/livez":
        return 200, {"live": True}
    if path != b"/readyz":
        return 404, {"pages": ["/livez", "/readyz", "/metrics"]}
    wrong = f"no space left: {health.storage_fault}" if health.storage_fault else bus and await _bus_problem(bus)
    ready = health.ready and wrong is None and not health.changed_streams
    status: dict[str, object] = {"ready": ready, "doing": health.doing, "bus": wrong or "answers"}
    if health.changed_streams:
        status["streams"] = health.changed_streams
    if health.violations:
        status["violations"] = health.violations
    if health.listener_errors:
        status["listener_errors"] = health.listener_errors
    return 200 if ready else 503, status


async def _bus_problem(bus: Bus) -> str | None:
    """The reason why the bus is not usable; None: it is. Asks the leader of a stream, which a cluster without a
    majority does not have."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await bus.get(subjects.LEASES.name, "health")
    except TimeoutError:
        return f"JetStream has not answered for {PROBE_TIMEOUT_S:g} s"
    except BusError as error:
        return str(error)
    return None


def _page(code: int, content_type: str, body: bytes) -> bytes:
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[code]
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
