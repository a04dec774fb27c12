"""A web service of a test, and a client of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_web import limits
from remuda_web.settings import WebSettings
from remuda_web.shell import serve
from tests.system.running import running, until


class FreePort(WebSettings):
    port: int = 0


async def address_of(bus: Bus, instance: str = "web") -> dict[str, Any]:
    """The address of the web service, when it listens."""
    found: dict[str, Any] = {}

    async def listens() -> bool:
        try:
            found.update(json.loads((await bus.request(subjects.front_end(instance, "web"))).payload))
        except BusError:
            return False
        return True

    await until(listens)
    return found


@asynccontextmanager
async def web_service(
    url: str, bus: Bus, settings: type[WebSettings] = FreePort, base: str = "/api/v1", **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the base. `options`: of httpx.AsyncClient. No answer is kept: each shows what a test has done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "KEPT_S", 0.0)
        patch.setattr(limits, "KEPT_REST", 0)
        async with _served(url, bus, settings, base, **options) as client:
            yield client


@asynccontextmanager
async def _served(
    url: str, bus: Bus, settings: type[WebSettings], base: str, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    async with running(url, "web", serve, settings):
        found = await address_of(bus)
        root = f"{found['scheme']}://{found['host']}:{found['port']}"
        async with httpx.AsyncClient(base_url=root + base, timeout=20, **options) as client:
            yield client
