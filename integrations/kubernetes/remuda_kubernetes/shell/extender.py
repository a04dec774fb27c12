"""The HTTP server that the default scheduler asks as an extender. It answers from memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import structlog
from aiohttp import web

from remuda_kubernetes import limits
from remuda_kubernetes.plugin.extender import VERBS, Answer
from remuda_kubernetes.plugin.plugin import PluginShim
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.server import served

log = structlog.get_logger()


class Extender:
    """Serves the extender until it is cancelled (`run()`). `answered`: called after each answer."""

    def __init__(self, shim: PluginShim, settings: KubernetesSettings, answered: Callable[[], None]) -> None:
        self._shim = shim
        self._settings = settings
        self._answered = answered

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when the port is taken, ValueError for a malformed certificate."""
        routes = [web.post("/{verb}", self._answer)]
        host, port = self._settings.extender_host, self._settings.extender_port
        async with served(routes, host, port, limits.EXTENDER_REQUEST_BYTES, _tls(self._settings)):
            log.info("answers the default scheduler", host=host, port=port)
            await asyncio.Event().wait()

    async def _answer(self, request: web.Request) -> web.Response:
        allowed, name = self._settings.extender_clients, _client_of(request)
        if allowed and name not in allowed:
            reason = f"a client named {name!r}: expected one of {', '.join(allowed)}"
            log.warning("the extender refuses a client", client=name, address=request.remote)
            raise web.HTTPForbidden(text=reason)
        verb = VERBS.get(request.match_info["verb"])
        if verb is None:
            raise web.HTTPNotFound
        content = await request.read()
        answer: Answer
        try:
            answer = verb(self._shim, content)
        except ValueError as error:
            answer = {"Error": f"a request that is not understood: {error}"}
        self._answered()
        return web.json_response(answer)


def _client_of(request: web.Request) -> str:
    """The common name in its certificate; empty: it has none."""
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    subject = (certificate or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def _tls(settings: KubernetesSettings) -> ssl.SSLContext | None:
    if settings.extender_cert is None or settings.extender_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings.extender_client_ca)
    if settings.extender_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(settings.extender_cert, settings.extender_key)
    except ssl.SSLError as error:
        raise ValueError(f"kubernetes.extender_cert: {error}") from None
    return context
