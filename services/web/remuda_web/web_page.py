"""The web page at `/`: static files of the package, in memory. Their address names their content, so that a browser
asks for each only once."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from remuda_web import entity_tags

FOLDER: Final = Path(__file__).parent / "page"
ASSETS: Final = "/page"
PUBLIC: Final = ("/", "/login", "/login/callback", "/logout")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ASK_AGAIN: Final = "no-cache"
_KEEP: Final = "public, max-age=31536000, immutable"


class _Asset(NamedTuple):
    media_type: str
    tag: str
    plain: bytes
    compressed: bytes


def is_public(path: str) -> bool:
    """Whether the path shows no data, so that a browser without a token may load it."""
    return path in PUBLIC or path.startswith(f"{ASSETS}/")


def add_page(app: FastAPI) -> None:
    digest, assets = _assets()
    index = _asset("index.html", assets["index.html"].plain.replace(b'"/page/', f'"{ASSETS}/{digest}/'.encode()))

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return _answer(request, index, _ASK_AGAIN)

    @app.get(f"{ASSETS}/{{content}}/{{path:path}}", include_in_schema=False)
    async def asset(request: Request, content: str, path: str) -> Response:
        """A page of another version gets these files as well, but must not keep them under its address: several web
        services behind one address are not renewed at the same moment."""
        if path not in assets:
            return Response(status_code=404)
        return _answer(request, assets[path], _KEEP if content == digest else _ASK_AGAIN)


@lru_cache(maxsize=1)
def _assets() -> tuple[str, dict[str, _Asset]]:
    """A digest of all files, and each by its path."""
    found = {
        path.relative_to(FOLDER).as_posix(): _asset(path.name, path.read_bytes())
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file()
    }
    digest = hashlib.sha256("".join(f"{path} {one.tag}\n" for path, one in found.items()).encode())
    return digest.hexdigest()[:16], found


def _asset(name: str, content: bytes) -> _Asset:
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return _Asset(kind, entity_tags.entity_tag(content), content, gzip.compress(content, mtime=0))


def _answer(request: Request, asset: _Asset, caching: str) -> Response:
    headers = _HEADERS | {"ETag": asset.tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if entity_tags.matches(request.headers.get("if-none-match", ""), asset.tag):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.plain, media_type=asset.media_type, headers=headers)
    return Response(asset.compressed, media_type=asset.media_type, headers=headers | {"Content-Encoding": "gzip"})
