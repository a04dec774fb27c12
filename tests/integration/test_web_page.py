"""The web page in a real Chromium, over the whole system."""

from __future__ import annotations

import asyncio

import pytest

from tests.examples.node_packages import installed_packages
from tests.integration.browser import AXE, Tab, needs_chromium, tab
from tests.integration.test_web import Web, rm_with_work
from tests.integration.test_web import web as web

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
# The place of each view, and what it has to show.
VIEWS = {
    "": ["Queues", "partition default", "vcore 1 of 2", "root"],
    "queues/rm-1/default%20root.a": ["root.a", "History", "fair share", "big", "no node has"],
    "applications/rm-1": ["app", "root.a", "alice", "Running"],
    "applications/rm-1/app": ["Time line", "Why it waits", "big", "no node has", "Allocations", "n1"],
    "nodes/rm-1": ["n1", "Schedulable", "Colour by"],
    "nodes/rm-1/n1": ["n1", "Schedulable", "available", "app"],
    "events/rm-1": ["application", "app"],
    "configuration/rm-1": ["Edit the file", "version 1"],
    "configuration/rm-1/rm%3A1": ["Version 1", "partitions:"],
    "configuration/rm-1/edit": ["Edit the file", "Apply"],
    "system/rm-1": ["Resource managers", "registered", "leads", "None on record."],
}


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
