"""A client of nats-py with corrections.

Most of them concern bytes from other clients, which the server passes on unchecked: headers and subjects may hold
anything. Each method says what nats-py's own does."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nats import errors
from nats.aio.client import DEFAULT_BUFFER_SIZE, PING_PROTO, Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.protocol import parser

from remuda_bus import limits
from remuda_bus.bus import Headers
from remuda_bus.nats.access import Access
from remuda_bus.untrusted import shortened

T = TypeVar("T")

VERSION = "NATS/1.0"
STATUS, DESCRIPTION = "Status", "Description"
SEQUENCE = "Nats-Sequence"  # the server adds it to a stored message that it hands out
HEADER_LINE_BYTES = len(f"{VERSION}\r\n\r\n")
# Raised by asyncio when a lost connection is written to (AttributeError: an encrypted transport has no protocol left).
WRITING_FAILED = (OSError, AttributeError, RuntimeError)
SCHEMES = ("nats", "tls")

# The server separates tokens at these four characters only. nats-py's expressions separate them at any white space, and
# it drops the whole connection where one does not match.
parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(
    rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+([^ \t\r\n]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n"
)


def servers(url: str) -> list[str]:
    """The servers of a URL, separated by commas. Raises ValueError that names the malformed one."""
    return [_checked(server.strip()) for server in url.split(",")]


def _checked(server: str) -> str:
    expected = "expected nats://HOST:PORT or tls://HOST:PORT"
    try:
        parts = urlsplit(server if "://" in server else f"nats://{server}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"NATS URL {shortened(server)!r}: {error}, {expected}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"NATS URL {shortened(server)!r}: unknown scheme {shortened(parts.scheme)!r}, {expected}")
    if not host or any(one.isspace() for one in server):
        raise ValueError(f"NATS URL {shortened(server)!r}: no host, {expected}")
    if port == 0:
        raise ValueError(f"NATS URL {shortened(server)!r}: port 0, {expected}")
    return server


def parse_headers(raw: bytes) -> dict[str, str]:
    """Parse the headers of a message. Status and description are taken from the first line only; headers of those names
    are dropped. (nats-py's own parser checks every character of every name, which is half of the cost of a message.)"""
    first, *lines = raw.decode("utf-8", "replace").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name] = value.strip()
    headers.pop(STATUS, None)
    headers.pop(DESCRIPTION, None)
    if len(first) > len(VERSION):
        status, _, description = first[len(VERSION) :].strip().partition(" ")
        headers[STATUS] = status
        if description:
            headers[DESCRIPTION] = description
    return headers


async def heeded(work: Awaitable[T]) -> T:
    """Await `work`, then raise a cancellation that it has swallowed. nats-py swallows cancellations, partly by
    asyncio.wait_for, which in Python 3.11 does so when its work ends at the same moment."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


class PatchedClient(Client):
    """nats-py's client, with corrections. `access`: the credentials, which are read for every attempt to connect."""

    _cancelled_before = 0

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    async def connect(self, *args: Any, **kwargs: Any) -> None:
        """Raises ValueError when the credentials are invalid."""
        task = asyncio.current_task()
        assert task is not None
        self._cancelled_before = task.cancelling()
        try:
            kwargs |= self._access.options()
            await heeded(super().connect(*args, **kwargs))
        finally:
            self._cancelled_before = 0  # reconnections have a task of their own

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """nats-py's own stops half-way when the last bytes cannot be written, as on a lost connection: subscriptions
        stay active, the socket stays open, and no callback is called. So close again, without those bytes.
        It also stops if the reconnection was cancelled while it waited for the end of the socket: whoever waits for the
        same end is then cancelled, too. So close again, without the socket, which is closed by then."""
        try:
            await super()._close(status, do_cbs)
        except WRITING_FAILED:
            self._pending, self._pending_data_size = [], 0
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._transport = None
        else:
            return
        self._status = Client.DISCONNECTED
        await super()._close(status, do_cbs)

    async def _connect_to_server(self, s: Srv) -> None:
        """Every attempt to connect starts here. The attempt before may have swallowed a cancellation, such as one that
        came in the moment in which the server refused it; without this check the client would retry without end.

        nats-py's own uses the credentials that were read at the start, so a client that runs for longer than a CA or a
        key would never connect again. An error that is raised here is reported, and followed by another attempt."""
        task = asyncio.current_task()
        if task is not None and task.cancelling() > self._cancelled_before:
            raise asyncio.CancelledError
        s.last_attempt = time.monotonic()
        self._read_credentials()
        self._transport = Transport()  # type: ignore[no-untyped-call]
        await self._transport.connect(s.uri, DEFAULT_BUFFER_SIZE, self.options["connect_timeout"])

    def _read_credentials(self) -> None:
        given = self._access.options()
        if "tls" in given:
            self.options["tls"] = given["tls"]
        if "nkeys_seed" in given:
            self._setup_nkeys_connect()

    async def flush(self, *args: Any, **kwargs: Any) -> None:
        await heeded(super().flush(*args, **kwargs))

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """nats-py's own sends the ping before pending messages, so its pong does not confirm that they arrived."""
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def _process_pong(self) -> None:
        """nats-py's own stops reading for good when the task that awaited the pong was cancelled."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _read_loop(self) -> None:
        """nats-py's own ends silently at an unexpected error. Without the reconnect here, the client would receive
        nothing until two pings were unanswered."""
        await super()._read_loop()
        task = asyncio.current_task()
        if self.is_connected and task is not None and not task.cancelling():
            await self._process_op_err(errors.StaleConnectionError())

    async def _flush_pending(self, *args: Any, **kwargs: Any) -> Any:
        """Keep unwritten data for the next connection. The read loop notices that this connection is lost."""
        try:
            return await heeded(super()._flush_pending(*args, **kwargs))
        except WRITING_FAILED:
            nothing = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing

    @property
    def server_version(self) -> str:
        return str(self._server_info.get("version", ""))

    def check_size(self, subject: str, payload: bytes, headers: Headers | None) -> None:
        """Raises ValueError when the message is larger than the server accepts: the server would close the
        connection."""
        size = len(payload)
        if headers:
            size += HEADER_LINE_BYTES + sum(
                len(key.encode()) + len(value.encode()) + 4 for key, value in headers.items()
            )
        if size > self.max_payload:
            raise ValueError(
                f"{subject}: {size} bytes (payload {len(payload)}, headers {size - len(payload)}), "
                f"the server takes at most {self.max_payload} (its setting max_payload)"
            )

    def forget(self, subscription: Subscription) -> None:
        """Remove a subscription. One whose draining failed half-way would be restored with the next connection."""
        self._remove_sub(subscription._id)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        """nats-py's own raises at malformed headers and reconnects, for a message in a stream without end."""
        return (parse_headers(headers) or None) if headers else None

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        """nats-py's own raises where a subject is not UTF-8."""
        return self.msg_class(
            subject=subject.decode(errors="replace"),
            reply=reply.decode(errors="replace"),
            data=data,
            headers=headers,
            _client=self,
            _sid=sid,
        )


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
