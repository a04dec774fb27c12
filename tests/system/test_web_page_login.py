"""The way into the web page and out of it, in a real Chromium: by a bearer token, and at a real OpenID provider."""

from __future__ import annotations

import pytest

from tests.system.browser import needs_chromium, tab
from tests.system.test_web_access import TOKENS, System, system

__all__ = ["system"]
pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


async def test_a_token_opens_the_page_until_its_owner_logs_out(system: System) -> None:
    async with tab(system.restricted, refusals=True) as found:
        page = found.page
        await found.open("queues")
        await page.get_by_label("Token").fill("a-token-that-nobody-knows")
        await page.get_by_role("button", name="Enter").click()
        await found.shows("the bearer token is not known here")
        await page.get_by_label("Token").fill(TOKENS["eve"])
        await page.get_by_role("button", name="Enter").click()
        await found.shows("eve", "partition default")
        await page.get_by_role("link", name="a", exact=True).click()
        await page.get_by_role("heading", name="root.a").wait_for()
        assert not await page.get_by_text("root.b").count(), "eve may not read about it"
        await page.get_by_role("button", name="Log out").click()
        await page.get_by_label("Token").wait_for()


async def test_a_person_logs_in_at_the_provider(system: System) -> None:
    async with tab(system.url, refusals=True) as found:
        page = found.page
        await found.open("queues")
        await page.get_by_role("link", name="Log in").click()
        await page.get_by_placeholder("Enter any login").fill("pat+admins")
        await page.get_by_placeholder("and password").fill("any")
        await page.get_by_role("button", name="Sign-in").click()
        await page.get_by_role("button", name="Continue").click()
        await found.shows("pat", "Resource managers")
        await page.get_by_role("button", name="Log out").click()
        await page.get_by_role("link", name="Log in").wait_for()
