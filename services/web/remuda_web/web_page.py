"""The web page at `/`: static files of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

FOLDER: Final = Path(__file__).parent / "page"
ASSETS: Final = "/page"
PUBLIC: Final = ("/", "/login", "/login/callback", "/logout")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def is_public(path: str) -> bool:
    """Whether the path shows no data, so that a browser without a token may load it."""
    return path in PUBLIC or path.startswith(f"{ASSETS}/")


def add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(FOLDER / "index.html", headers=_HEADERS)

    app.mount(ASSETS, StaticFiles(directory=FOLDER), name="page")
