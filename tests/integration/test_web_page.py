"""The web page in a real Chromium, over the whole system."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from remuda.embedded import NatsServer
from remuda_bus.memory import MemoryBus
from remuda_sdk import node
from remuda_web import limits
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.source import Row
from tests.examples.node_packages import installed_packages
from tests.integration.browser import AXE, Tab, needs_chromium, tab
from tests.integration.running import QUEUES, until
from tests.integration.test_web import Web, rm_with_work, web_of

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
# The place of each view, and what it has to show.
VIEWS = {
    "": ["Queues", "partition default", "vcore 0.001 of 0.002", "root"],
    "queues/rm-1/default%20root.a": ["root.a", "History", "fair share", "big", "no node has"],
    "applications/rm-1": ["app", "root.a", "alice"],
    "applications/rm-1/app": ["Time line", "Why it waits", "big", "no node has", "Allocations", "n1"],
    "nodes/rm-1": ["n1", "Schedulable", "Colour by"],
    "nodes/rm-1/n1": ["n1", "Schedulable", "available", "app"],
    "events/rm-1": ["application", "app"],
    "configuration/rm-1": ["Edit the file", "version 1", "in force"],
    "configuration/rm-1/rm%3A1": ["Version 1", "partitions:"],
    "configuration/rm-1/edit": ["Edit the file", "Apply", "valid"],
    "system/rm-1": ["Resource managers", "registered", "leads", "None on record."],
}


@pytest.fixture
async def web(server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    monkeypatch.setattr(limits, "HISTORY_EVERY_MS", 100)
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with web_of(server.url, tmp_path / "queues.yaml") as found:
        yield found


def page_of(web: Web) -> str:
    return str(web.client.base_url.copy_with(path="/"))


async def test_each_view_shows_its_data_to_everybody(web: Web) -> None:
    """In light and dark, wide and on a telephone, with nothing that axe-core takes for serious."""
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    rm = await rm_with_work(web, "rm-1")
    await asyncio.gather(_wide(page_of(web), axe), _narrow(page_of(web), axe))
    await rm.__aexit__(None, None, None)


async def _wide(url: str, axe: str) -> None:
    async with tab(url) as found:
        for place, words in VIEWS.items():
            await _check(found, place, words, axe)


async def _narrow(url: str, axe: str) -> None:
    async with tab(url, "dark", width=360, height=740) as found:
        for place, words in VIEWS.items():
            await _check(found, place, words[:1], axe)
            assert await found.overflow() <= 0, place


async def _check(found: Tab, place: str, words: list[str], axe: str) -> None:
    await found.open(place)
    await found.shows(*words)
    assert await found.accessibility(axe) == [], place


async def test_an_operator_acts_and_changes_the_configuration(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1", QUEUES.replace("submitacl", "adminacl: '*', submitacl"))
    async with tab(page_of(web)) as found:
        page = found.page
        await found.open("applications/rm-1/app")
        await page.get_by_role("button", name="What would let it run?").click()
        await found.shows("Any of these would let it run", "trials on a copy of the state")
        page.on("dialog", lambda dialog: dialog.accept())
        await found.open("queues/rm-1/default%20root.a")
        await page.get_by_role("button", name="Hold").click()
        await page.get_by_label("Reason").fill("the storage is being replaced")
        await page.get_by_role("dialog").get_by_role("button", name="Hold").click()
        await found.shows("Hold: done", "held")
        await page.get_by_role("button", name="Change priority").click()
        await page.get_by_role("spinbutton", name="Priority").fill("7")
        await page.get_by_role("dialog").get_by_role("button", name="Change priority").click()
        await found.shows("Change priority: done", "priority 7")
        assert "the storage is being replaced" in str((await _row(web, "queues", "path", "root.a"))["held"])
        await page.reload()
        await found.page.get_by_role("img", name="vcore of root.a: now used").wait_for()
        kept = await web.client.get(
            str(web.client.base_url.copy_with(path="/api/v1/rms/rm-1/queue-history")), params={"queue": "root.a"}
        )
        assert kept.json()["resources"]["vcore"]["allocated"][-1] == 1, "the history of before the reload"

        await found.open("configuration/rm-1/edit")
        editor = page.get_by_label("queues.yaml")
        await editor.fill(QUEUES.replace("name: a", "colour: red"))
        await found.shows("unknown key 'colour'")
        assert await page.get_by_role("button", name="Apply").is_disabled()
        await editor.fill(QUEUES.replace("name: a", "name: b"))
        await found.shows("valid")
        await page.get_by_role("button", name="Compare").click()
        await found.shows("+partitions:")
        await page.get_by_role("button", name="Preview").click()
        await found.shows("on a copy of the state")
        await page.get_by_label("Message").fill("b is better")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("version 2", "b is better")

        await page.get_by_role("link", name="Edit the file").click()
        await editor.fill(QUEUES.replace("name: a", "name: c"))
        await found.shows("valid")
        await page.get_by_label("Roll back unless confirmed in").fill("30")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("Version 3 is staged")
        await page.get_by_role("button", name="Keep version 3").click()
        await page.get_by_text("Version 3 is staged").wait_for(state="hidden")

        await page.get_by_role("link", name="version 1").click()
        await page.get_by_role("button", name="Roll back").click()
        await found.shows("version 4", "restores 1")
    await rm.__aexit__(None, None, None)


async def test_the_keyboard_alone_leads_to_a_node(web: Web) -> None:
    """Tab to the map of nodes, arrows on it, Enter; then back and through the views."""
    rm = await rm_with_work(web, "rm-1")
    await rm.report_nodes([node(f"n{number}", vcore=1_000) for number in range(2, 90)])
    async with tab(page_of(web)) as found:
        page = found.page
        await found.open("nodes/rm-1")
        await found.shows("89")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.tagName") == "CANVAS":
                break
        known = [row["id"] for row in await _rows(web, "nodes")]
        shown = ""
        for key, at in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 0), ("ArrowDown", -1)):
            await page.keyboard.press(key)
            shown = str(await page.locator(".pointed").text_content())
            assert shown.startswith(f"{known[at]}:") if at >= 0 else known.index(shown.partition(":")[0]) > 1, key
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=shown.partition(":")[0]).wait_for()
    await rm.__aexit__(None, None, None)


async def _rows(web: Web, kind: str) -> list[Row]:
    answer = await web.client.get(str(web.client.base_url.copy_with(path=f"/api/v1/rms/rm-1/{kind}")))
    return list(answer.json()["rows"])


async def _row(web: Web, kind: str, field: str, value: str) -> Row:
    return next(row for row in await _rows(web, kind) if row[field] == value)


APPLICATIONS, NODES = 20_000, 10_000
FIRST_VIEW_WITHIN_S = 1.0


class LargeSource(BusSource):
    """An RM with so many applications and nodes, in pages as a core gives them."""

    def __init__(self) -> None:
        super().__init__(MemoryBus())
        amounts = {"vcore": 4_000, "memory": 2**34}
        self._rows: dict[str, list[Row]] = {
            "nodes": [
                {
                    "partition": "default", "id": f"node-{n:05}", "attributes": {"zone": f"z{n % 5}"},
                    "capacity": {"vcore": 64_000, "memory": 2**38}, "occupied": {}, "available": {},
                    "allocated": {"vcore": n % 65 * 1_000, "memory": 2**33}, "status": "Schedulable", "drained": None,
                    "reserved_for": None, "allocations": n % 65,
                }
                for n in range(NODES)
            ],
            "applications": [
                {
                    "partition": "default", "id": f"app-{n:05}", "queue": f"root.q{n % 50}", "user": f"user-{n % 99}",
                    "groups": [], "tags": {}, "state": "Running", "since_ms": 1, "submitted_ms": n, "states": [],
                    "allocated": amounts, "pending": {}, "asks": 0, "allocations": 1, "task_groups": [],
                }
                for n in range(APPLICATIONS)
            ],
        }  # fmt: skip

    def rms(self) -> list[str]:
        return ["rm-1"]

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        start = arguments.get("after", ["", 0])[1]
        end = start + 600
        following = {"next": ["default", end]} if end < len(self._rows[kind]) else {}
        return {"rm": rm, "at_ms": 1, kind: self._rows[kind][start:end], **following}


@asynccontextmanager
async def large() -> AsyncIterator[str]:
    app = Application(LargeSource(), "1", 0, "info")
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await until(lambda: _started(server))
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    await serving


async def _started(server: uvicorn.Server) -> bool:
    return server.started


async def test_ten_thousand_nodes_and_twenty_thousand_applications() -> None:
    async with large() as url, tab(url) as found:
        for view, first, last, count in (
            ("applications", "app-00000", f"app-{APPLICATIONS - 1:05}", APPLICATIONS),
            ("nodes", "node-00000", f"node-{NODES - 1:05}", NODES),
        ):
            took = await _until_shown(found, view, first)
            assert took < 3 * FIRST_VIEW_WITHIN_S, f"{view}: {took:.2f} s"  # other tests run at the same time
            await found.shows(f"{count:,}")
            box = found.page.get_by_role("region", name=view.capitalize())
            slowest = await box.evaluate(SCROLL)
            await box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
            await found.shows(last)
            assert await box.locator("tbody tr").count() < 100, "rows out of sight are in the document"
            print(f"{view}: first view {took:.2f} s, slowest frame while scrolling {slowest:.0f} ms")


# What `alike` and `reasonTracks` make of three asks, at 100 ms.
WAITS = """async () => {
  const { alike, reasonTracks } = await import("/page/wait_bands.js");
  const place = { where: "root.a", resource: "vcore" }, of = { application: "app", resource: { vcore: 1 } };
  const by = (constraint, since_ms, more) => ({ ...place, constraint, since_ms, reason: constraint, ...more });
  const ask = (key, constraints, history) => ({ ...of, key, constraints, history });
  const asks = [
    ask("a", [by("queue", 40)], [by("node", 10, { ended_ms: 40 }), by("queue", 40, { ended_ms: 0 })]),
    ask("b", [by("queue", 0)], []), ask("c", [by("node", 0)], []),
  ];
  return [alike(asks).map((group) => group.map((one) => one.key)), asks.map((one) => reasonTracks(one, 100))];
}"""


async def test_asks_that_wait_alike_are_one_and_reasons_are_bands() -> None:
    async with large() as url, tab(url) as found:
        await found.open("nodes/rm-1")
        groups, (first, *others) = await found.page.evaluate(WAITS)
    assert groups == [["a", "b"], ["c"]]
    assert [(one["name"], [list(band.values()) for band in one["bands"]]) for one in first] == [
        ("node root.a vcore", [[10, 40, False]]), ("queue root.a vcore", [[40, 100, True]]),
    ]  # fmt: skip
    assert others == [[], []], "without a time since when, there is no band"


# Scrolls through all rows in 60 steps; the longest time between two frames, in ms.
SCROLL = """async box => {
  let slowest = 0, before = await new Promise(requestAnimationFrame);
  for (let step = 0; step <= 60; step++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * step / 60;
    const now = await new Promise(requestAnimationFrame);
    slowest = Math.max(slowest, now - before);
    before = now;
  }
  return slowest;
}"""


async def _until_shown(found: Tab, view: str, row: str) -> float:
    started = time.monotonic()
    await found.open(f"{view}/rm-1")
    await found.page.get_by_role("link", name=row).wait_for(timeout=20_000)
    return time.monotonic() - started
