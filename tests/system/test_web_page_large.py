"""The web page in a real Chromium over a large cluster."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from playwright.async_api import CDPSession, Page

from remuda_bus.memory import MemoryBus
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.source import LISTS, Row
from tests.system.browser import Tab, needs_chromium, tab
from tests.system.running import until

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
APPLICATIONS, NODES = 20_000, 10_000
PAGE_ROWS = 600
FIRST_VIEW_WITHIN_S = 1.0
STEPS = 60
# Of work of the page's main thread: twice what leaves time for 60 frames a second.
SCROLLED_IN_S = 2 * STEPS / 60
# Scripts of the page, and the bytes that came for each.
SCRIPTS = """() => performance.getEntriesByType("resource").filter((one) => one.name.endsWith(".js"))
  .map((one) => [one.name, one.transferSize])"""


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
        rows = self._rows.get(kind, [])
        start = arguments.get("after", ["", 0])[1]
        end = start + PAGE_ROWS
        following = {"next": ["default", end]} if end < len(rows) else {}
        return {"rm": rm, "at_ms": 1, "partitions": [], LISTS[kind]: rows[start:end], **following}


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
        session = await found.page.context.new_cdp_session(found.page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        for view, first, last, count in (
            ("applications", "app-00000", f"app-{APPLICATIONS - 1:05}", APPLICATIONS),
            ("nodes", "node-00000", f"node-{NODES - 1:05}", NODES),
        ):
            took = await _until_shown(found, view, first)
            assert took < 3 * FIRST_VIEW_WITHIN_S, f"{view}: {took:.2f} s"  # other tests run at the same time
            await found.shows(f"{count:,}")
            box = found.page.get_by_role("region", name=view.capitalize())
            before_s = await _worked_s(session)
            slowest = await box.evaluate(SCROLL)
            worked_s = await _worked_s(session) - before_s
            assert worked_s < SCROLLED_IN_S, f"{view}: {worked_s:.2f} s of work for {STEPS} frames"
            await box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
            await found.shows(last)
            assert await box.locator("tbody tr").count() < 100, "rows out of sight are in the document"
            print(f"{view}: first view {took:.2f} s, {worked_s:.2f} s of work, slowest frame {slowest:.0f} ms")
        rendered = await _rendered_while_nothing_changes(found.page)
        assert not rendered, f"rows that have not changed are rendered again: {rendered}"


async def _worked_s(session: CDPSession) -> float:
    """Processor time of the page's main thread since some moment: other processes do not count."""
    found = {one["name"]: one["value"] for one in (await session.send("Performance.getMetrics"))["metrics"]}
    return float(found["TaskDuration"])


async def _rendered_while_nothing_changes(page: Page) -> int:
    """How many rows the page writes anew while it reads all of them twice."""
    await page.get_by_role("region", name="Nodes").evaluate("""box => {
      window.rendered = 0;
      new MutationObserver((all) => { window.rendered += all.length; })
        .observe(box.querySelector("tbody"), { subtree: true, childList: true, characterData: true, attributes: true });
    }""")
    last = f"{NODES - NODES % PAGE_ROWS}]"
    for _ in range(2):
        async with page.expect_response(lambda answer: _place(answer.url).endswith(last)):
            pass
    return int(await page.evaluate("new Promise(requestAnimationFrame).then(() => window.rendered)"))


def _place(url: str) -> str:
    """The place of the next row in the address of a page of rows."""
    found = parse_qs(urlsplit(url).query).get("after", [""])[0]
    return base64.urlsafe_b64decode(found + "=" * (-len(found) % 4)).decode()


async def test_the_first_rows_need_little_and_later_visits_no_files() -> None:
    asked: list[str] = []
    async with large() as url, tab(url) as found:
        found.page.on("request", lambda request: asked.append(request.url.removeprefix(url)))
        await _until_shown(found, "nodes", "node-00000")
        first = list(asked)
        rows = [one for one in first if one.startswith("api/v1/rms/rm-1/nodes")]
        assert rows[0].endswith("nodes?limit=100"), rows
        assert len(first) - len(rows) < 28 and not [one for one in first if "uplot.js" in one], first
        await found.shows(f"{NODES:,}")
        before = {name for name, _ in await found.page.evaluate(SCRIPTS)}
        await found.page.reload()
        await found.page.get_by_role("link", name="node-00000").wait_for()
        again = [name for name, size in await found.page.evaluate(SCRIPTS) if name in before and size]
        assert before and not again, f"files that came again: {again}"


# What `alike` and `reasonTracks` make of three asks, at 100 ms.
WAITS = """async () => {
  const { alike, reasonTracks } = await import(new URL("wait_bands.js", document.querySelector("script").src));
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


# Scrolls through all rows in steps; the longest time between two frames, in ms.
SCROLL = """async box => {
  let slowest = 0, before = await new Promise(requestAnimationFrame);
  for (let step = 0; step <= STEPS; step++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * step / STEPS;
    const now = await new Promise(requestAnimationFrame);
    slowest = Math.max(slowest, now - before);
    before = now;
  }
  return slowest;
}""".replace("STEPS", str(STEPS))


async def _until_shown(found: Tab, view: str, row: str) -> float:
    started = time.monotonic()
    await found.open(f"{view}/rm-1")
    await found.page.get_by_role("link", name=row).wait_for(timeout=20_000)
    return time.monotonic() - started
