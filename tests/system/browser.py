"""The distribution's Chromium, driven by Playwright, on the web page of a running system."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Page, async_playwright

from tests.patience import READY_S

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent / "axe"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (apt-get install chromium)")
Scheme = Literal["light", "dark"]


@dataclass
class Tab:
    """A tab of a browser. `problems`: what its console said, and requests that failed."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    async def open(self, place: str) -> None:
        """A view, from nothing."""
        await self.page.goto("about:blank")
        await self.page.goto(f"{self.url}#{place}")

    async def shows(self, *words: str) -> None:
        """Waits for each."""
        for word in words:
            await self.page.get_by_text(word, exact=False).filter(visible=True).first.wait_for(timeout=READY_S * 1_000)

    async def accessibility(self, axe: str) -> list[str]:
        """What axe-core takes for serious or critical."""
        if not await self.page.evaluate("typeof axe === 'object'"):
            await self.page.evaluate(axe)
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [_described(one) for one in found["violations"] if one["impact"] in ("serious", "critical")]

    async def nonsense(self) -> list[str]:
        """Texts, also those for the pointer and for screen readers, that show values which are not there."""
        return [str(one) for one in await self.page.evaluate(NONSENSE)]

    async def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


NONSENSE = """() => {
  const wrong = /undefined|\\bNaN\\b|\\[object|\\bnull\\b|Infinity|function \\(|=>/, found = [document.title];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    if (!parentElement.closest("pre, textarea, script")) found.push(data);
  }
  for (const one of document.querySelectorAll("[title], [aria-label]")) {
    found.push(one.title, one.getAttribute("aria-label") || "");
  }
  return found.filter((one) => wrong.test(one));
}"""


def _described(violation: dict[str, Any]) -> str:
    return f"{violation['id']}: {[node['html'][:160] for node in violation['nodes'][:3]]}"


@asynccontextmanager
async def tab(
    url: str, scheme: Scheme = "light", width: int = 1280, height: int = 800, refusals: bool = False
) -> AsyncIterator[Tab]:
    """A tab of a browser of its own, which takes any certificate. Problems that are left in it fail the test, but for
    answers with 401 where `refusals` are expected."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(
            color_scheme=scheme, viewport={"width": width, "height": height}, ignore_https_errors=True
        )
        found = Tab(page, url)
        page.on("console", lambda message: _note(found, message.location["url"], f"console: {message.text}"))
        page.on("pageerror", lambda error: found.problems.append(f"error: {error}"))
        page.on("response", lambda answer: _note_status(found, answer.url, answer.status))
        page.on("requestfailed", lambda request: _note_failure(found, request.url, request.failure))
        try:
            yield found
        finally:
            await browser.close()
        left = [one for one in found.problems if not (refusals and "401" in one)]
        assert not left, left


def _note(found: Tab, url: str, problem: str) -> None:
    """Of our own pages and files, not of others to which they lead."""
    if url.startswith(found.url) or not url:
        found.problems.append(problem)


def _note_status(found: Tab, url: str, status: int) -> None:
    if status >= 400:
        _note(found, url, f"{status} {url}")


def _note_failure(found: Tab, url: str, failure: str | None) -> None:
    """Requests that end because a view is left are no failures."""
    if "ERR_ABORTED" not in (failure or ""):
        _note(found, url, f"failed: {url} {failure}")
