"""Names in paths. A name may contain a slash, as `%2F`: servers decode it, so it could not be told from those between
names."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

# Stands for a slash within a name until the path is divided. No name contains control characters.
_SLASH: Final = "\0"
_ENCODED: Final = re.compile(rb"%2f", re.IGNORECASE)


class EncodedSlashes:
    """Keeps encoded slashes apart from others, in paths that begin with `prefix` in any case."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].lower().startswith(self._prefix):
            marked, count = _ENCODED.subn(quote(_SLASH).encode(), scope.get("raw_path") or b"")
            if count:
                scope = {**scope, "path": unquote(marked.decode("latin-1"))}
        await self._app(scope, receive, send)


def name_in(request: Request, parameter: str) -> str:
    """The name in this part of the path."""
    return str(request.path_params[parameter]).replace(_SLASH, "/")


def path_of(marked: str) -> str:
    """The path as a client writes it, for a redirection."""
    return quote(marked).replace(quote(_SLASH), "%2F")
