"""The web page in a real Chromium, over the whole system."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.integration.test_web import Web, rm_with_work
from tests.integration.test_web import web as web

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (apt-get install chromium)")


async def shown(web: Web, place: str, profile: Path) -> str:
    """The text of the page once its data has come. Its console has to be empty."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={profile}",
        "--window-size=360,700", "--virtual-time-budget=4000", "--dump-dom",
        str(web.client.base_url.copy_with(path="/", fragment=place)),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        page, log = await process.communicate()
    assert "CONSOLE" not in log.decode(), log.decode()
    return re.sub(r"<[^>]+>", " ", page.decode().partition("<main>")[2])


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", ["Queues", "root", "vcore 0.001 of 0.002"]),
        ("applications/rm-1", ["app", "root.a", "alice", "1 found"]),
        ("applications/rm-1/app", ["Why it waits", "big", "no node has", "Allocations", "n1"]),
        ("nodes/rm-1", ["n1", "1 allocations"]),
        ("events/rm-1", ["application", "app"]),
        ("configuration/rm-1/rm%3A1", ["Version", "partitions:"]),
    ],
)
async def test_each_view_shows_its_data(web: Web, tmp_path: Path, place: str, words: list[str]) -> None:
    rm = await rm_with_work(web, "rm-1")
    text = await shown(web, place, tmp_path)
    assert [word for word in words if word not in text] == [], text
    await rm.__aexit__(None, None, None)
