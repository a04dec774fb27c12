"""The past on the web page: the slider, and what a configuration would have done, in a real Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda.history import versions
from remuda.history.answers import Answers
from remuda.history.kept import Replays
from remuda.history.shell import serve
from remuda_archive.copying import Copying
from remuda_archive.store import Store
from remuda_bus.nats import connect
from tests.identity.archived import until_archived
from tests.patience import PATIENCE
from tests.system.browser import AXE, Tab, needs_chromium, tab
from tests.system.node_packages import installed_packages
from tests.system.running import QUEUES
from tests.system.test_web import Web, rm_with_work, web_of

pytestmark = [needs_chromium, pytest.mark.timeout(400)]
MOMENT = "2000-01-01T00:00:00.000Z"


@pytest.fixture
async def web(server: NatsServer, tmp_path: Path) -> AsyncIterator[Web]:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with web_of(server.url, tmp_path / "queues.yaml") as found:
        yield found


def _page_of(web: Web) -> str:
    return str(web.client.base_url.copy_with(path="/"))


async def test_the_slider_shows_what_there_was_and_a_configuration_is_played(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "NICENESS", 0)
    archive, axe = tmp_path / "archive", (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with tab(_page_of(web)) as found:
        rm = await rm_with_work(web, "rm-1")
        await found.open("queues/rm-1")
        await found.shows("partition default")
        assert await found.page.get_by_role("button", name="Look back").count() == 0, "there is no archive"
        bus, store = await connect(web.url, "test", timeout_s=30.0), Store.open(str(archive))
        copying = asyncio.create_task(Copying(bus, "rm-1", store, 0.1).run())
        replays = Replays(store)
        await serve(bus, Answers(store), replays)
        await until_archived(bus, archive)
        await found.open("queues/rm-1")
        await found.page.get_by_role("button", name="Look back").click()
        await found.shows("Show")
        span = (await web.client.get(f"{_page_of(web)}api/v1/rms/rm-1/past")).json()
        await _shows_the_past(found, span["until_ms"], axe)
        await _plays_a_configuration(found, axe)
        # Nothing is known of MOMENT. The console does not say of which request it speaks.
        of_moment = "at=2000-01-01", "the server responded with a status of 404"
        found.problems = [one for one in found.problems if not any(text in one for text in of_moment)]
        await replays.close()
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
        await bus.close()
        await rm.__aexit__(None, None, None)


async def _shows_the_past(found: Tab, until_ms: int, axe: str) -> None:
    """With the slider, and by an address. Nothing acts there."""
    await found.page.get_by_role("slider").press("Home")
    await found.shows("As it was at", "0 nodes")
    assert await found.nonsense() == []
    await found.page.get_by_role("slider").press("End")
    await found.shows("As it was at", "vcore 0.001 of 0.002")
    assert "at=" in await found.page.evaluate("location.hash")
    await found.page.get_by_role("link", name="nodes", exact=True).first.click()
    await found.shows("As it was at", "n1", "Schedulable")
    assert "at=" in await found.page.evaluate("location.hash"), "links lead on in the past"
    await found.page.get_by_role("link", name="n1").first.click()
    await found.shows("As it was at", "available")
    assert await found.page.get_by_role("button", name="Drain").count() == 0
    assert await found.accessibility(axe) == [] and await found.nonsense() == [] and await found.overflow() <= 0
    await found.page.get_by_role("button", name="Now").click()
    await found.shows("Drain")
    assert "at=" not in await found.page.evaluate("location.hash")
    await found.open(f"queues/rm-1?at={MOMENT}")
    await found.shows("As it was at", "begins at")


async def _plays_a_configuration(found: Tab, axe: str) -> None:
    """Beside the preview of the editor. The report is kept."""
    await found.open("configuration/rm-1/edit")
    await found.shows("valid", "What if this had been in force")
    await found.page.get_by_role("button", name="Play it").click()
    await found.page.get_by_role("link", name="replays").click()
    await found.shows("What would have been", "edited at")
    await found.page.get_by_text("Decided again exactly").first.wait_for(timeout=200_000 * PATIENCE)
    await found.shows("unchanged", "with it", "root.a", "in use")
    assert await found.accessibility(axe) == [] and await found.nonsense() == [] and await found.overflow() <= 0
