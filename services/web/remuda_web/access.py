"""Access to the pages: bearer tokens (RFC 6750) from a file of `TOKEN NAME` lines; without tokens, pages of this
machine only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from remuda_bus.settings import is_loopback
from remuda_web import limits
from remuda_web.web_page import is_public


def read_tokens(file: Path) -> dict[bytes, str]:
    """SHA-256 of a token -> the client's name. Raises ValueError with the line that is wrong."""
    found: dict[bytes, str] = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2 or len(words[0]) < limits.TOKEN_CHARACTERS:
            raise ValueError(
                f"{file}, line {number}: expected `TOKEN NAME`, a token of {limits.TOKEN_CHARACTERS} characters"
            )
        found[_digest(words[0])] = words[1]
    if not found or len(found) > limits.TOKENS:
        raise ValueError(f"{file}: found {len(found)} tokens, expected from 1 to {limits.TOKENS}")
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class TokenRequired:
    """Answers 401 to every request for data without one of the tokens. The name of the client is in `state.client`."""

    def __init__(self, app: ASGIApp, tokens: Mapping[bytes, str]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_public(scope["path"]):
            name = self._name(dict(scope["headers"]).get(b"authorization", b""))
            if name is None:
                refusal = PlainTextResponse(
                    "a bearer token is needed\n", 401, {"WWW-Authenticate": 'Bearer realm="remuda"'}
                )
                await refusal(scope, receive, send)
                return
            scope.setdefault("state", {})["client"] = name
        await self._app(scope, receive, send)

    def _name(self, header: bytes) -> str | None:
        """Tokens are compared by digest, so the time of the comparison reveals none."""
        scheme, _, token = header.decode("latin-1").partition(" ")
        return self._tokens.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


class LocalOnly:
    """Answers 403 to requests that a browser sends for a page of another machine. Every such page could read the data
    otherwise: the answers of `/ws/v1` allow it (CORS), and a foreign name may resolve to this address (DNS
    rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            for name, prefix in ((b"host", "//"), (b"origin", "")):
                value = headers.get(name, b"").decode("latin-1")
                if value and not _is_local(prefix + value):
                    shown = value[: limits.SHOWN_CHARACTERS]
                    reason = f"{name.decode()} {shown!r}: expected this machine, as no tokens are set (web.tokens)\n"
                    await PlainTextResponse(reason, 403)(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
