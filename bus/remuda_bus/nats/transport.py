"""The socket to a NATS server, whose end is never waited for without a bound.

nats-py waits until a closed socket has reported its end, when it closes a connection and before it restores one. A
socket whose handshake has failed reports it to nobody. One whose peer is stopped reports it when the system gives up,
after many minutes."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from nats.aio.transport import TcpTransport

from remuda_bus import limits


class Transport(TcpTransport):
    """nats-py's transport, with a bounded end."""

    async def connect_tls(self, uri: Any, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: int) -> None:
        """nats-py's own keeps the socket after a failed handshake, whose end it would wait for."""
        plain = self._io_writer
        try:
            await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)
        except BaseException:
            if plain is not None:
                plain.transport.abort()
            self._io_reader = self._io_writer = None
            raise

    async def wait_closed(self) -> None:
        try:
            async with asyncio.timeout(limits.SOCKET_CLOSE_TIMEOUT_S):
                await super().wait_closed()  # type: ignore[no-untyped-call]
        except TimeoutError:
            if self._io_writer is not None:
                self._io_writer.transport.abort()
