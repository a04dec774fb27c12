"""How this process is, for whoever keeps it running: two pages over HTTP.

`/livez`: the event loop turns. Who fails it should be restarted. `/readyz`: it is connected, JetStream answers, and
the service says that it does its work or stands by for it. Who fails it should be waited for: nothing is mended by a
restart while the bus is away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError


class Health:
    """What a service says of itself: `doing`, in a few words for people, and whether that is as it should be."""

    def __init__(self) -> None:
        self.doing = "starting"
        self.ready = False

    def say(self, doing: str, ready: bool = True) -> None:
        self.doing, self.ready = doing, ready


OWN = Health()  # of this process


@asynccontextmanager
async def served(bus: Bus, port: int, health: Health = OWN) -> AsyncIterator[None]:
    """Answer on `port`, on all addresses; 0: not at all."""
    if not port:
        yield
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(limits.HEALTH_REQUEST_WITHIN_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(_page(*await _status(request.split(b" ")[1], bus, health)))
                await writer.drain()
        except (OSError, TimeoutError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked so is not answered
        finally:
            writer.close()

    server = await asyncio.start_server(answer, port=port, limit=limits.HEALTH_REQUEST_BYTES)
    try:
        yield
    finally:
        server.close()


async def _status(path: bytes, bus: Bus, health: Health) -> tuple[int, dict[str, object]]:
    if path == b"/livez":
        return 200, {"live": True}
    if path != b"/readyz":
        return 404, {"pages": ["/livez", "/readyz"]}
    wrong = await _what_is_wrong(bus)
    ready = health.ready and wrong is None
    return 200 if ready else 503, {"ready": ready, "doing": health.doing, "bus": wrong or "answers"}


async def _what_is_wrong(bus: Bus) -> str | None:
    """Asks the leader of a stream, so a cluster that has lost its majority shows."""
    try:
        async with asyncio.timeout(limits.PROBE_WITHIN_S):
            await bus.get(subjects.LEASES.name, "health")
    except TimeoutError:
        return f"JetStream has not answered for {limits.PROBE_WITHIN_S:g} s"
    except BusError as error:
        return str(error)
    return None


def _page(code: int, content: dict[str, object]) -> bytes:
    body = json.dumps(content).encode() + b"\n"
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[code]
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
