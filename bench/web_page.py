"""Measures the web page on a large cluster: a real nats-server, every service a process, a core with that state behind
the page, and the distribution's Chromium.

    python bench/web_page.py [--json] [--nodes N] [--applications N] [--rounds N]
    python bench/web_page.py --rms N [--applications N] ...        the overview, with the applications in N RMs

Each view is opened in a new page until its first rows are shown (*first view*), and until the page has read all rows
(*complete*). Then the list is scrolled from one end to the other in 60 steps; measured is the longest time between two
frames. Figures are medians of the rounds; the first round, which fills the browser's cache, counts as well.

With `--rms`, every tenth application waits for a second allocation. Measured is how long the web service takes for the
overview when it has nothing kept (*answer*), and until the page shows all RMs (*first view*), and of that the processor
time of the page's main thread (*work*), which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import uvloop
from playwright.async_api import Browser, async_playwright

from remuda.local.system import Layout, System
from remuda_bus.nats import connect
from remuda_operations.queries.front_ends import front_ends
from remuda_sdk import ResourceManager, application, ask, node

RM = "bench"
QUEUES_SHOWN = 50
QUEUES = f"""
partitions:
  - name: default
    queues:
      - {{name: root, submitacl: '*', queues: [{", ".join(f"{{name: q{n:02}}}" for n in range(QUEUES_SHOWN))}]}}
"""
BATCH = 1_000
PREPARED_WITHIN_S = 600.0
NOTHING_KEPT_S = 3.0  # longer than answers and sums are kept
# Scrolls through all rows in 60 steps: the longest time between two frames, in ms.
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


async def fill(rm: ResourceManager, nodes: int, applications: int) -> None:
    """Every application has an allocation."""
    allocated = 0

    async def count(response: Any) -> None:
        nonlocal allocated
        allocated += len(response.new)

    rm.on_allocation(count)
    for start in range(0, nodes, BATCH):
        await rm.report_nodes(
            node(f"node-{n:05}", memory=2**38, vcore=64_000, attributes={"zone": f"z{n % 5}"})
            for n in range(start, min(nodes, start + BATCH))
        )
    for start in range(0, applications, BATCH):
        some = range(start, min(applications, start + BATCH))
        await rm.submit(
            *(application(f"app-{n:05}", queue=f"root.q{n % QUEUES_SHOWN:02}", user=f"user-{n % 99}") for n in some)
        )
        for n in some:
            await rm.ask([ask(f"app-{n:05}", "r0", resources={"vcore": 4_000, "memory": 2**34})])
    async with asyncio.timeout(PREPARED_WITHIN_S):
        while allocated < applications:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def view(browser: Browser, url: str, name: str, row: str, count: int) -> dict[str, float]:
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    began = time.monotonic()
    await page.goto(f"{url}#{name}/{RM}")
    await page.get_by_role("link", name=row, exact=True).first.wait_for(timeout=60_000)
    first_s = time.monotonic() - began
    await page.get_by_text(f"{count:,}", exact=True).first.wait_for(timeout=60_000)
    complete_s = time.monotonic() - began
    slowest_ms = await page.get_by_role("region", name=name.capitalize()).evaluate(SCROLL)
    await page.close()
    return {"first_view_s": first_s, "complete_s": complete_s, "slowest_frame_ms": slowest_ms}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    views = (
        ("queues", "root", QUEUES_SHOWN + 1), ("applications", "app-00000", options.applications),
        ("nodes", "node-00000", options.nodes),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=2, web_port=0, log_level="warning")) as system:
            await system.ready()
            async with ResourceManager.connect(system.url, RM, config=QUEUES) as rm, async_playwright() as playwright:
                await fill(rm, options.nodes, options.applications)
                bus = await connect(system.url, "bench")
                (web,) = await front_ends(bus, service="web")
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                found: dict[str, Any] = {}
                for name, row, count in views:
                    taken = [
                        await view(browser, f"http://{web.host}:{web.port}/", name, row, count)
                        for _ in range(options.rounds)
                    ]
                    found[name] = {key: round(statistics.median(one[key] for one in taken), 3) for key in taken[0]} | {
                        "first_view_s_worst": round(max(one["first_view_s"] for one in taken), 3)
                    }
                await browser.close()
                await bus.close()
                return {"nodes": options.nodes, "applications": options.applications, "views": found}


async def fill_one_of_many(rm: ResourceManager, applications: int) -> None:
    """Room for one allocation of each application."""
    await rm.report_nodes(node(f"node-{n:03}", memory=2**41, vcore=4_000 * 100) for n in range(-(-applications // 100)))
    await fill(rm, 0, applications)
    await rm.ask([ask(f"app-{n:05}", "r1", resources={"vcore": 4_000_000}) for n in range(0, applications, 10)])


async def measure_overview(options: argparse.Namespace) -> dict[str, Any]:
    answers, views = list[float](), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with (
            System(Layout(Path(data), cores=2, web_port=0, log_level="warning")) as system,
            AsyncExitStack() as stack,
        ):
            await system.ready()
            for number in range(options.rms):
                rm = ResourceManager.connect(system.url, f"bench-{number:02}", config=QUEUES)
                await fill_one_of_many(await stack.enter_async_context(rm), options.applications // options.rms)
            bus = await connect(system.url, "bench")
            (web,) = await front_ends(bus, service="web")
            url = f"http://{web.host}:{web.port}/"
            playwright = await stack.enter_async_context(async_playwright())
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                found: dict[str, Any] = {}
                for _ in range(options.rounds):
                    await asyncio.sleep(NOTHING_KEPT_S)
                    began = time.monotonic()
                    found = (await client.get("api/v1/overview")).json()
                    answers.append(time.monotonic() - began)
                    await asyncio.sleep(NOTHING_KEPT_S)
                    views.append(await overview(browser, url, f"bench-{options.rms - 1:02}"))
            await browser.close()
            await bus.close()
    waiting = sum(one["waiting"] for one in found["rms"])
    return {
        "rms": len(found["rms"]), "applications": sum(one["applications"] for one in found["rms"]), "waiting": waiting,
        "answer_s": round(statistics.median(answers), 3), "answer_s_worst": round(max(answers), 3),
        "first_view_s": round(statistics.median(took_s for took_s, _ in views), 3),
        "first_view_s_worst": round(max(took_s for took_s, _ in views), 3),
        "work_s": round(statistics.median(work_s for _, work_s in views), 3),
    }  # fmt: skip


async def overview(browser: Browser, url: str, last: str) -> tuple[float, float]:
    """Until the last RM is shown: seconds, and processor time."""
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.monotonic()
    await page.goto(f"{url}#overview")
    await page.get_by_role("link", name=last, exact=True).wait_for(timeout=60_000)
    took_s = time.monotonic() - began
    found = {one["name"]: one["value"] for one in (await session.send("Performance.getMetrics"))["metrics"]}
    await page.close()
    return took_s, float(found["TaskDuration"])


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the web page on a large cluster")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--applications", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each view")
    parser.add_argument("--rms", type=int, default=0, help="measure the overview of so many RMs")
    options = parser.parse_args()
    if options.rms:
        result = uvloop.run(measure_overview(options))
        print(json.dumps(result) if options.json else "\n".join(f"{name}: {value:,}" for name, value in result.items()))
        return
    result = uvloop.run(measure(options))
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['nodes']:,} nodes, {result['applications']:,} applications with an allocation each")
    for name, one in result["views"].items():
        print(
            f"{name}: first view {one['first_view_s']} s (worst {one['first_view_s_worst']} s), "
            f"complete {one['complete_s']} s, slowest frame while scrolling {one['slowest_frame_ms']:.0f} ms"
        )


if __name__ == "__main__":
    main()
