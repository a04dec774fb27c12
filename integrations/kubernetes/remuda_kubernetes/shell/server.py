"""An HTTP server of this process, beside the health pages."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def served(
    routes: Iterable[web.RouteDef], host: str, port: int, request_bytes: int, tls: ssl.SSLContext | None
) -> AsyncIterator[None]:
    """Serves until the block is left. An empty `host`: all addresses. Raises OSError when the port is taken."""
    application = web.Application(client_max_size=request_bytes)
    application.add_routes(routes)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
