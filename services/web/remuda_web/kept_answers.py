"""Answers to requests that read, in front of the application: built and compressed once for all who ask for the same.

Requests for the same path, in the same form, by callers with the same rights, get the same bytes for moments
(`kept`). Streams, and the methods of operators, go through to the application.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from remuda_web import entity_tags, limits
from remuda_web.callers import caller_of
from remuda_web.kept import Kept
from remuda_web.kept_source import KeptSource
from remuda_web.source import LISTS
from remuda_web.ws_v1.configuration import wants_json

_KEPT: Final = re.compile(
    rf"/ws/v1/(?!events/stream).*|/api/v1/overview|/api/v1/rms(/[^/]+/(stats|queue-history|{'|'.join(LISTS)}))?"
)
# Of a request. The answer that is kept is whole and as it is; what a client has or takes is seen to here.
_OF_CLIENT: Final = (b"accept-encoding", b"if-none-match", b"range")
# Paths below which nothing changes anything.
_READING: Final = "/ws/v1/"

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Answer:
    """`_compressed`: made when the first client wants it."""

    status: int
    headers: RawHeaders
    body: bytes
    _compressed: bytes | None = None
    _compressing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, headers: Headers, send: Send) -> None:
        """`headers`: of the request."""
        tag = next((value.decode("latin-1") for name, value in self.headers if name == b"etag"), None)
        if tag is not None and entity_tags.matches(headers.get("if-none-match", ""), tag):
            same = [one for one in self.headers if one[0] in (b"etag", b"cache-control", b"vary")]
            await _send(send, 304, same, b"")
            return
        body, found = self.body, self.headers
        if len(body) >= limits.COMPRESSED_FROM_BYTES:
            found = [*found, (b"vary", b"Accept-Encoding")]
            if "gzip" in headers.get("accept-encoding", ""):
                body = await self._gzip()
                found = [one for one in found if one[0] != b"content-length"]
                found += [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
        await _send(send, self.status, found, body)

    async def _gzip(self) -> bytes:
        async with self._compressing:
            if self._compressed is None:
                small = len(self.body) < limits.COMPRESSED_ASIDE_BYTES
                self._compressed = (
                    gzip.compress(self.body, limits.COMPRESSION_LEVEL, mtime=0) if small
                    else await asyncio.to_thread(gzip.compress, self.body, limits.COMPRESSION_LEVEL, mtime=0)
                )  # fmt: skip
            return self._compressed


def _weight(answer: Answer) -> int | None:
    """Some kB for headers, the key and the compressed body of a small answer. Only what was found is kept."""
    return len(answer.body) * 5 // 4 + 2_000 if answer.status == 200 else None


def _is_kept(scope: Scope) -> bool:
    size = len(scope["query_string"]) + len(_raw_path(scope))
    return size <= limits.KEPT_QUERY_BYTES and _KEPT.fullmatch(scope["path"]) is not None


def _raw_path(scope: Scope) -> bytes:
    """The path as the client sent it: decoded, a slash within a name would be a slash between names."""
    sent: bytes | None = scope.get("raw_path")
    return sent or str(scope["path"]).encode()


class KeptAnswers:
    """`source`: what the application reads from. What operators do through this process is seen in answers at once."""

    def __init__(self, app: ASGIApp, source: KeptSource) -> None:
        self._app = app
        self._source = source
        self._answers: Kept[Answer] = Kept(limits.KEPT_BYTES, _weight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD", "OPTIONS") and not scope["path"].startswith(_READING):
            try:
                await self._app(scope, receive, send)
            finally:
                self._source.forget()
                self._answers.forget()
        elif scope["method"] == "GET" and _is_kept(scope):
            headers, caller = Headers(scope=scope), caller_of(Request(scope))
            rights = True if caller.reads_all else caller.operator
            key = (_raw_path(scope), scope["query_string"], wants_json(headers), rights)
            answer = await _unless_gone(receive, self._answers.get(key, lambda: self._asked(scope)))
            if answer is not None:
                await answer.send(headers, send)
        else:
            await self._app(scope, receive, send)

    async def _asked(self, scope: Scope) -> Answer:
        """The whole answer of the application."""
        start: Message = {}
        parts: list[bytes] = []

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        plain = [(name, value) for name, value in scope["headers"] if name not in _OF_CLIENT]
        await self._app({**scope, "headers": plain}, _nothing, take)
        return Answer(start["status"], [(name.lower(), value) for name, value in start["headers"]
                                        if name.lower() != b"vary"], b"".join(parts))  # fmt: skip


async def _unless_gone(receive: Receive, answering: Coroutine[Any, Any, Answer]) -> Answer | None:
    """The answer; None: the client has hung up before."""
    answered = asyncio.create_task(answering)
    tasks = (answered, asyncio.create_task(_gone(receive)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return answered.result() if answered.done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(send: Send, status: int, headers: RawHeaders, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
