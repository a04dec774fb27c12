"""One connection to the NATS servers. It is restored after every outage, and every request gets a reply or
`Unanswered`.

All replies arrive on one subscription. The last token of the reply subject identifies the request. This module knows
nothing of streams.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog
from nats import errors
from nats.aio.msg import Msg

from remuda_bus import limits, metrics
from remuda_bus.bus import BusError, Headers, NoResponders, Refused, Unanswered, UnsuitableServer
from remuda_bus.nats.access import Access
from remuda_bus.nats.patched_client import SEQUENCE, STATUS, PatchedClient, servers

log = structlog.get_logger()

FORBIDDEN = 403
VERSION = re.compile(r"v?(\d+)\.(\d+)")
# nats-py hands on what the server says in lower case.
NOT_ALLOWED = re.compile(r'permissions violation for publish to "([^"]+)"')


class Connection:
    """`url`: one or several servers, separated by commas. A lost connection is restored without end, and logged.
    Replies arrive below `_INBOX.<name>`, so permissions can keep other clients from subscribing to them."""

    def __init__(self, url: str, name: str, access: Access) -> None:
        self.url = url
        self.name = name
        self.access = access
        self.client = PatchedClient(access)
        self.closed = asyncio.Event()  # set when the connection is closed for good, by close() or by the server
        self.failure: str | None = None
        self.count = 0  # connections made so far, this one included
        self._up = asyncio.Event()
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}  # by token: subject of the request, its reply
        self._several: dict[str, list[Msg]] = {}  # by token: replies so far, of requests with several
        self._gathering: dict[str, list[Msg]] = {}  # by token: replies so far, of requests that all may answer
        self._tokens = itertools.count(1)
        self._prefix = ""
        self._on_reconnect: set[Callable[[], None]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._down_since = time.monotonic()
        self._said_so = 0.0

    async def open(self, timeout_s: float | None) -> None:
        """Raises Unanswered, UnsuitableServer; ValueError when the credentials are invalid."""
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
                )
        except TimeoutError:
            why = f": {self.client.last_error}" if self.client.last_error is not None else ""
            raise Unanswered(f"no connection to a NATS server at {self.url} within {timeout_s} s{why}") from None
        if problem := self._version_problem():
            await self.client.close()
            raise UnsuitableServer(problem)
        self.count = 1
        self._prefix = self.client.new_inbox() + "."
        await self.client.subscribe(self._prefix + "*", cb=self._reply)
        self._up.set()

    async def close(self) -> None:
        for task in self._background:
            task.cancel()
        await self.client.close()

    def when_reconnected(self, then: Callable[[], None]) -> Callable[[], None]:
        """Call `then` after every reconnection. Returns a function that ends this."""
        self._on_reconnect.add(then)
        return lambda: self._on_reconnect.discard(then)

    def later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Run `work` in the background. Errors of the connection are only logged."""

        async def run() -> None:
            try:
                await work
            except (errors.Error, BusError) as error:
                log.debug("not sent", bus=self.name, error=repr(error))

        task = asyncio.get_running_loop().create_task(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled before it starts never awaits it
        return task

    async def until_up(self, timeout_s: float | None = None) -> None:
        """Wait until connected. Raises Unanswered after `timeout_s`, and when the connection is closed for good."""
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
        self.client.check_size(subject, payload, headers)
        if not self._up.is_set():
            await self.until_up(5.0)
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (errors.ConnectionClosedError, errors.OutboundBufferLimitError, errors.ConnectionDrainingError) as error:
            raise Unanswered(f"{subject}: not connected to {self.url}") from error

    async def ask_for_many(self, subject: str, payload: bytes, timeout_s: float = 5.0) -> list[Msg]:
        """Send a request and return all replies: messages from a stream, and the reply that ends them."""
        replies: list[Msg] = []
        await self.ask(subject, payload, None, timeout_s, replies)
        return replies

    async def ask(
        self,
        subject: str,
        payload: bytes,
        headers: Headers | None = None,
        timeout_s: float = 5.0,
        replies: list[Msg] | None = None,
    ) -> Msg:
        """Send a request and return the reply that ends it. `replies`: a list that receives all replies.

        While connected, nothing is awaited before the message is queued. So messages of tasks that start one after the
        other keep that order. Raises NoResponders, another Unanswered, or Refused."""
        if not self._up.is_set():
            await self.until_up(timeout_s)
        loop = asyncio.get_running_loop()
        token = str(next(self._tokens))
        reply: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = subject, reply
        if replies is not None:
            self._several[token] = replies
        timer = loop.call_later(timeout_s, self._expire, token, subject, timeout_s)
        try:
            await self.send(subject, payload, headers, self._prefix + token)
            message = await reply
        finally:
            timer.cancel()
            self._waiting.pop(token, None)
            if replies is not None:
                del self._several[token]
        if not message.data and _is_no_responders(message.headers or {}):
            raise NoResponders(f"{subject}: no responders")
        return message

    async def ask_all(self, subject: str, payload: bytes, within_s: float, quiet_s: float | None = None) -> list[Msg]:
        """Send a request and return the replies that arrive within `within_s`, or until none has arrived for `quiet_s`
        after another. Raises Unanswered, Refused."""
        if not self._up.is_set():
            await self.until_up(within_s)
        token = str(next(self._tokens))
        replies = self._gathering[token] = []
        try:
            await self.send(subject, payload, None, self._prefix + token)
            await _quiet(replies, within_s, quiet_s)
        finally:
            del self._gathering[token]
        return [reply for reply in replies if reply.data]

    def _expire(self, token: str, subject: str, timeout_s: float) -> None:
        self._fail(token, Unanswered(f"{subject}: no answer within {timeout_s} s"))

    async def _reply(self, message: Msg) -> None:
        token = message.subject[len(self._prefix) :]
        if token in self._gathering:
            self._gathering[token].append(message)
            return
        if token in self._several:
            self._several[token].append(message)
            if message.headers and SEQUENCE in message.headers:
                return
        _, reply = self._waiting.pop(token, ("", None))
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
        elif now - self._said_so >= limits.OUTAGE_LOG_INTERVAL_S:
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

    def _version_problem(self) -> str:
        """The problem with the version of the server; empty if there is none. A version without a number passes."""
        version, least = self.client.server_version, limits.LEAST_SERVER_VERSION
        number = VERSION.match(version)
        if number is None or (int(number[1]), int(number[2])) >= least:
            return ""
        return f"the NATS server at {self.url} has version {version}, expected {least[0]}.{least[1]} or later"

    async def _reconnected(self) -> None:
        if problem := self._version_problem():
            log.error("the NATS server is too old", url=self.url, problem=problem)
            self.failure = problem
            self.later(self.client.close())
            return
        self.count += 1
        metrics.NATS_RECONNECTS.inc()
        log.info("reconnected to the bus", url=self.url, outage_s=round(time.monotonic() - self._down_since, 3))
        self._up.set()
        for then in list(self._on_reconnect):
            then()

    async def _closed(self) -> None:
        self.failure = self.failure or (repr(self.client.last_error) if self.client.last_error else None)
        self.closed.set()
        self._up.set()  # wakes the waiting tasks; until_up() raises


def _is_no_responders(headers: Headers) -> bool:
    """Whether the server reports no responders. A message from a stream has a sequence, whatever status its sender
    wrote."""
    return headers.get(STATUS) == "503" and SEQUENCE not in headers


async def _quiet(replies: Sequence[Msg], within_s: float, quiet_s: float | None) -> None:
    """Wait for `within_s`, or until a list of replies that is not empty has not grown for `quiet_s`."""
    if quiet_s is None:
        await asyncio.sleep(within_s)
        return
    loop = asyncio.get_running_loop()
    give_up, known, since = loop.time() + within_s, 0, loop.time()
    while (now := loop.time()) < give_up and not (known and known == len(replies) and now - since >= quiet_s):
        if known != len(replies):
            known, since = len(replies), now
        await asyncio.sleep(min(quiet_s / 4, give_up - now))
