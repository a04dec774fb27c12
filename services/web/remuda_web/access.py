"""Who sends a request: the guard in front of the application, which sets the caller or refuses.

A program brings a bearer token. What a browser sends by itself (its place on this machine) could be used by any page
that it shows, so requests that change something have to come from our own page then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from remuda_bus.operator_api.callers import Caller
from remuda_bus.operators import Operator, operator_in
from remuda_bus.settings import is_loopback
from remuda_web import limits, problems
from remuda_web.callers import set_caller
from remuda_web.web_page import is_public

CHALLENGE: Final = 'Bearer realm="remuda"'
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
# Paths below which nothing changes anything.
_READING: Final = "/ws/v1/"


def read_tokens(file: Path) -> dict[bytes, Operator]:
    """SHA-256 of a token -> the client's name and groups. Raises ValueError with the line that is wrong."""
    found: dict[bytes, Operator] = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2 or len(words[0]) < limits.TOKEN_CHARACTERS:
            raise ValueError(
                f"{file}, line {number}: expected `TOKEN OPERATOR` or `TOKEN OPERATOR+GROUP+GROUP`, a token of "
                f"{limits.TOKEN_CHARACTERS} characters"
            )
        try:
            found[_digest(words[0])] = operator_in(words[1])
        except ValueError as error:
            raise ValueError(f"{file}, line {number}: {error}") from None
    if not found or len(found) > limits.TOKENS:
        raise ValueError(f"{file}: found {len(found)} tokens, expected from 1 to {limits.TOKENS}")
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class TokenRequired:
    """Answers 401 to every request for data without one of the tokens."""

    def __init__(self, app: ASGIApp, tokens: Mapping[bytes, Operator]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_public(scope["path"]):
            operator = self._operator(Headers(scope=scope).get("authorization", ""))
            if operator is None:
                refusal = problems.answer(401, "a bearer token is needed")
                refusal.headers["WWW-Authenticate"] = CHALLENGE
                await refusal(scope, receive, send)
                return
            set_caller(scope, Caller(operator, reads_all=True))
        await self._app(scope, receive, send)

    def _operator(self, header: str) -> Operator | None:
        """Tokens are compared by digest, so the time of the comparison reveals none."""
        scheme, _, token = header.partition(" ")
        return self._tokens.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


class LocalOnly:
    """Answers 403 to requests that a browser sends for a page of another machine. Every such page could read the data
    otherwise: the answers of `/ws/v1` allow it (CORS), and a foreign name may resolve to this address (DNS
    rebinding). Everybody else acts as `operator`, if there is one."""

    def __init__(self, app: ASGIApp, operator: Operator | None = None) -> None:
        self._app = app
        self._caller = Caller(operator, reads_all=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = _foreign(headers) or cross_site(scope, headers)
            if refusal:
                await problems.answer(403, refusal)(scope, receive, send)
                return
            set_caller(scope, self._caller)
        await self._app(scope, receive, send)


def _foreign(headers: Headers) -> str:
    for name, prefix in (("host", "//"), ("origin", "")):
        value = headers.get(name, "")
        if value and not _is_local(prefix + value):
            shown = value[: limits.SHOWN_CHARACTERS]
            return f"{name} {shown!r}: expected this machine, as no tokens are set (web.tokens)"
    return ""


def cross_site(scope: Scope, headers: Headers) -> str:
    """Why a request is refused that changes something and that a browser sends for the page of another site; "": it is
    not. Browsers name the site (`Origin`) in each such request; other programs need not."""
    if scope["method"] in _SAFE or scope["path"].startswith(_READING):
        return ""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and origin.partition("://")[2] != host:
        return f"origin {origin[: limits.SHOWN_CHARACTERS]!r}: only the page of this web service may change something"
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "sec-fetch-site: only the page of this web service may change something"
    return ""


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


class Unguarded:
    """Something else protects the port: whoever gets here reads everything and cannot act."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            set_caller(scope, Caller(reads_all=True))
        await self._app(scope, receive, send)
