"""The HTTP server: an application on a port, with or without TLS, in the loop of the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from remuda_web import limits
from remuda_web.access.certificates import NAMES, names_in
from remuda_web.settings import WebSettings


class Server:
    """`port`: the one it listens on, once it is started."""

    def __init__(self, settings: WebSettings, app: ASGIApp) -> None:
        self._settings = settings
        self._server = _Uvicorn(
            uvicorn.Config(
                app, loop="none", log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
                limit_concurrency=limits.REQUESTS_AT_ONCE, timeout_keep_alive=limits.KEEPALIVE_S,
                timeout_graceful_shutdown=limits.STOP_WITHIN_S,
                ssl_certfile=settings.certificate, ssl_keyfile=settings.key, ssl_ca_certs=settings.client_ca,
                ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_OPTIONAL,
                http=_WithCertificates,
            )
        )  # fmt: skip
        self._serving: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self) -> None:
        """Raises OSError when the port is taken or a file of the settings is no certificate or key."""
        listening = _listen(self._settings.host.strip("[]"), self._settings.port)
        self.port = listening.getsockname()[1]
        try:
            self._server.config.load()
        except OSError:
            listening.close()
            raise
        self._serving = asyncio.get_running_loop().create_task(self._server.serve([listening]), name="HTTP")

    async def serve(self) -> None:
        """Returns when the server has ended."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving


class _WithCertificates(H11Protocol):
    """Puts the names in a client's certificate into the state of its requests."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, NAMES: names_in(transport.get_extra_info("peercert"))}


class _Uvicorn(uvicorn.Server):
    """The process handles signals itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening
