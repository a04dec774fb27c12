"""One connection to the NATS server: kept for ever, and every question sent over it gets an answer or an `Unanswered`.

All replies come in on one subscription; a question is matched to its reply by the last token of the reply subject.
Knows nothing of streams."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from nats import errors
from nats.aio.client import PING_PROTO, Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from remuda_bus import limits
from remuda_bus.bus import BusError, Headers, NobodyListens, Refused, Unanswered
from remuda_bus.nats.access import Access

log = structlog.get_logger()

T = TypeVar("T")
HEADER_LINE_BYTES = len("NATS/1.0\r\n\r\n")
FORBIDDEN = 403
# nats-py hands on what the server says in lower case.
NOT_ALLOWED = re.compile(r'permissions violation for publish to "([^"]+)"')


def servers(url: str) -> list[str]:
    """Those that a URL names, separated by commas."""
    return [server.strip() for server in url.split(",")]


async def heeded(work: Awaitable[T]) -> T:
    """Await it, and raise a cancellation afterwards that it has swallowed: nats-py does so, be it because of
    asyncio.wait_for, which in Python 3.11 does when it is done at the same moment."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


class FastClient(Client):
    """nats-py with some things put right."""

    _cancelled_before = 0

    async def connect(self, *args: Any, **kwargs: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._cancelled_before = task.cancelling()
        await heeded(super().connect(*args, **kwargs))

    async def _select_next_server(self) -> None:
        """Each attempt begins here, and the one before may have swallowed a cancellation: it would try for ever."""
        task = asyncio.current_task()
        if task is not None and task.cancelling() > self._cancelled_before:
            raise asyncio.CancelledError
        await super()._select_next_server()

    async def flush(self, *args: Any, **kwargs: Any) -> None:
        await heeded(super().flush(*args, **kwargs))

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """Its own puts the ping before all that waits to be sent, so that the answer to it says nothing about that."""
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def _process_pong(self) -> None:
        """Its own stops to read for good when nobody waits for the answer any more."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _read_loop(self) -> None:
        """Its own ends without a word at an error it does not know; then nothing would be heard until the server has
        left two pings unanswered."""
        await super()._read_loop()
        task = asyncio.current_task()
        if self.is_connected and task is not None and not task.cancelling():
            await self._process_op_err(errors.StaleConnectionError())

    async def _flush_pending(self, *args: Any, **kwargs: Any) -> Any:
        return await heeded(super()._flush_pending(*args, **kwargs))

    def forget(self, subscription: Subscription) -> None:
        """One whose draining failed half-way would come back with the next connection."""
        self._remove_sub(subscription._id)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Its own looks at every character of every name, which is half of the cost of a message with headers."""
        headers: dict[str, str] = {}
        for line in raw.decode("utf-8", "replace").split("\r\n"):
            name, colon, value = line.partition(":")
            if colon:
                headers[name] = value.strip()
        return headers


class Connection:
    """`url` may name several servers, separated by commas. A lost connection is restored for ever, and the log says
    so. Answers come below `_INBOX.<name>`: permissions can keep others from listening there."""

    def __init__(self, url: str, name: str, access: Access) -> None:
        self.url = url
        self.name = name
        self.access = access
        self.client = FastClient()
        self.closed = asyncio.Event()  # set when it has ended for good, by close() or because the server threw us out
        self.failure: str | None = None
        self.count = 0  # connections made so far
        self._up = asyncio.Event()
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}  # by token: asked where, the reply
        self._tokens = itertools.count(1)
        self._prefix = ""
        self._on_reconnect: set[Callable[[], None]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._down_since = time.monotonic()
        self._said_so = 0.0

    async def open(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.client.connect(
                    servers(self.url),
                    name=self.name,
                    error_cb=self._error,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    closed_cb=self._closed,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=limits.RECONNECT_WAIT_S,
                    ping_interval=limits.PING_INTERVAL_S,
                    pending_size=limits.PENDING_BYTES,
                    inbox_prefix=f"_INBOX.{re.sub('[^A-Za-z0-9_=-]', '-', self.name)}",
                    **self.access.options(),
                )
        except TimeoutError:
            why = f": {self.client.last_error}" if self.client.last_error is not None else ""
            raise Unanswered(f"no connection to a NATS server at {self.url} within {timeout_s} s{why}") from None
        self.count = 1
        self._prefix = self.client.new_inbox() + "."
        await self.client.subscribe(self._prefix + "*", cb=self._reply)
        self._up.set()

    async def close(self) -> None:
        await asyncio.sleep(0)  # what is to be done in the background has begun: its coroutines can be cancelled
        for task in self._background:
            task.cancel()
        with suppress(ConnectionError):  # it was lost already, or is while the last bytes are on their way
            await self.client.close()

    def when_reconnected(self, then: Callable[[], None]) -> Callable[[], None]:
        """Call `then` after every reconnection; returns what ends that."""
        self._on_reconnect.add(then)
        return lambda: self._on_reconnect.discard(then)

    def later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Do it in the background; an error of the connection while doing so is of no consequence."""

        async def run() -> None:
            try:
                await work
            except (errors.Error, BusError) as error:
                log.debug("not sent", bus=self.name, error=repr(error))

        task = asyncio.get_running_loop().create_task(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def until_up(self, timeout_s: float | None = None) -> None:
        """Returns when connected; raises Unanswered when that takes longer, or the connection has ended for good."""
        if self._up.is_set():
            return
        if self.closed.is_set():
            raise Unanswered(f"the connection to {self.url} is closed")
        try:
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        except TimeoutError:
            raise Unanswered(f"not connected to {self.url} for {timeout_s} s") from None
        if self.closed.is_set():
            raise Unanswered(f"the connection to {self.url} is closed")

    async def send(self, subject: str, payload: bytes, headers: Headers | None = None, reply: str = "") -> None:
        self.check_size(subject, payload, headers)
        if not self._up.is_set():
            await self.until_up(5.0)
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (errors.ConnectionClosedError, errors.OutboundBufferLimitError, errors.ConnectionDrainingError) as error:
            raise Unanswered(f"{subject}: not connected to {self.url}") from error

    async def ask(self, subject: str, payload: bytes, headers: Headers | None = None, timeout_s: float = 5.0) -> Msg:
        """Send and return the reply. Nothing is awaited before the message is in the queue when connected, so messages
        of tasks that run one after the other stay in that order."""
        if not self._up.is_set():
            await self.until_up(timeout_s)
        loop = asyncio.get_running_loop()
        token = str(next(self._tokens))
        reply: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = subject, reply
        timer = loop.call_later(timeout_s, self._expire, token, subject, timeout_s)
        try:
            await self.send(subject, payload, headers, self._prefix + token)
            message = await reply
        finally:
            timer.cancel()
            self._waiting.pop(token, None)
        if not message.data and message.headers and message.headers.get("Status") == "503":
            raise NobodyListens(f"{subject}: nobody listens")
        return message

    def check_size(self, subject: str, payload: bytes, headers: Headers | None) -> None:
        """The server ends the connection of a client that sends too much, so that must not happen."""
        size = len(payload)
        if headers:
            size += HEADER_LINE_BYTES + sum(
                len(key.encode()) + len(value.encode()) + 4 for key, value in headers.items()
            )
        if size > self.client.max_payload:
            raise ValueError(
                f"{subject}: {size} bytes (payload {len(payload)}, headers {size - len(payload)}), "
                f"the server takes at most {self.client.max_payload}"
            )

    def _expire(self, token: str, subject: str, timeout_s: float) -> None:
        self._fail(token, Unanswered(f"{subject}: no answer within {timeout_s} s"))

    async def _reply(self, message: Msg) -> None:
        _, reply = self._waiting.pop(message.subject[len(self._prefix) :], ("", None))
        if reply is not None and not reply.done():
            reply.set_result(message)

    def _fail(self, token: str, error: BusError) -> None:
        _, reply = self._waiting.pop(token, ("", None))
        if reply is not None and not reply.done():
            reply.set_exception(error)

    async def _error(self, error: Exception) -> None:
        forbidden = NOT_ALLOWED.search(str(error).lower())
        if forbidden:
            for token in [token for token, (asked, _) in self._waiting.items() if asked.lower() == forbidden[1]]:
                self._fail(token, Refused(f"{self.name} may not publish to {self._waiting[token][0]}", FORBIDDEN))
        now = time.monotonic()
        if self._up.is_set():
            log.warning("error on the bus", bus=self.name, error=repr(error))
        elif now - self._said_so >= limits.SAY_SO_EVERY_S:
            self._said_so = now
            log.warning("waiting for the bus", url=self.url, waited_s=round(now - self._down_since), error=repr(error))

    async def _disconnected(self) -> None:
        self._up.clear()
        self._down_since = time.monotonic()
        self._said_so = self._down_since
        if not self.client.is_closed:
            log.warning("disconnected from the bus, reconnecting", url=self.url)
        for token in list(self._waiting):
            self._fail(token, Unanswered(f"the connection to {self.url} broke before the answer came"))

    async def _reconnected(self) -> None:
        self.count += 1
        log.info("reconnected to the bus", url=self.url, outage_s=round(time.monotonic() - self._down_since, 3))
        self._up.set()
        for then in list(self._on_reconnect):
            then()

    async def _closed(self) -> None:
        self.failure = repr(self.client.last_error) if self.client.last_error else None
        self.closed.set()
        self._up.set()  # wakes whoever waits; until_up() tells them
