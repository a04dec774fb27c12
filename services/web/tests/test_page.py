"""The files of the web page."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from remuda_bus.memory import MemoryBus
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.web_page import FOLDER

IMPORT = re.compile(r"""(?:from |import\()["'`](\.[^"'`]+)["'`]""")


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    app = Application(BusSource(MemoryBus()), "1", 0, "info")
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        yield client


async def test_a_browser_asks_for_each_file_once(client: AsyncClient) -> None:
    page = await client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    unchanged = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    files = re.findall(r'(?:href|src)="(/page/[^"]+)"', page.text)
    assert len(files) > 10
    for path in files:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip"), path
        assert "immutable" in answer.headers["cache-control"], path
        plain = await client.get(path, headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content and "content-encoding" not in plain.headers, path


async def test_a_page_of_another_version_gets_files_but_does_not_keep_them(client: AsyncClient) -> None:
    answer = await client.get("/page/0123456789abcdef/views/nodes.js")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "no-cache"
    unchanged = await client.get(
        "/page/0123456789abcdef/views/nodes.js", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert unchanged.status_code == 304
    for path in ("/page/0123456789abcdef/nothing.js", "/page/x/../../app.py", "/page/x/%2e%2e/app.py"):
        assert (await client.get(path)).status_code == 404


STATIC_IMPORT = re.compile(r"""^(?:import|export) .*from "(\.[^"]+)";$""", re.MULTILINE)
MOST_BYTES = 40_000  # 17 modules and the style; 33,000 today


def test_the_first_view_loads_what_it_needs_at_once_and_nothing_else() -> None:
    """Each module that the index does not name is found only when the one that imports it is here."""
    needed, ahead = set[str](), ["page.js", "ahead.js", "views/overview.js"]
    while ahead:
        name = ahead.pop()
        if name not in needed:
            needed.add(name)
            file = FOLDER / name
            found = (file.parent / path for path in STATIC_IMPORT.findall(file.read_text()))
            ahead += (path.resolve().relative_to(FOLDER).as_posix() for path in found)
    named = re.findall(r'(?:href|src)="/page/([^"]+)"', (FOLDER / "index.html").read_text())
    assert set(named) == needed | {"page.css"}
    assert sum(len(gzip.compress((FOLDER / name).read_bytes())) for name in named) <= MOST_BYTES


def test_every_import_of_the_page_is_relative_and_leads_to_a_file() -> None:
    """An absolute one would go around the address that names the content."""
    for file in [*FOLDER.glob("*.js"), *FOLDER.glob("views/*.js")]:
        assert '"/page/' not in file.read_text(), file
        for path in IMPORT.findall(file.read_text()):
            if "${" not in path:
                assert (file.parent / path).is_file(), f"{file.name}: {path}"
