"""A hostile reader of the web service, who may see few queues: odd pages of rows, and connections that it closes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx

from remuda_bus.bus import Bus
from remuda_web.settings import WebSettings
from remuda_web.shell import serve as web_main
from remuda_web.source import LISTS
from tests.patience import PATIENCE
from tests.system.running import running
from tests.system.web_client import address_of

ANSWER_WITHIN_S = 15.0 * PATIENCE
GIVES_UP = 0.3  # how often it closes the connection before the answer
WEB = "web-fuzz"
TOKEN = "a-reader-of-few-queues-has-this"
ODD = ("", "0", "-1", "x", "9" * 30, "x" * 3_000, "%00", "é", "WyJkZWZhdWx0IiwgMV0", "W10")
NAMES = ("limit", "after", "application", "queue", "key", "node", "user", "group", "min_log_seq", "action")


class FuzzingReader:
    """`rm_ids`: about which it asks. `sent`, `told`, `unanswered`, `accepted`, `defects`: as of FuzzingClient."""

    def __init__(self, url: str, rm_ids: Sequence[str], seed: str, pace_s: float) -> None:
        self.rm_id = "no RM"
        self.random = Random(seed)
        self.sent: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.accepted: list[int] = []
        self.defects: list[str] = []
        self.unanswered: list[str] = []
        self._url = url
        self._rm_ids = rm_ids
        self._pace_s = pace_s

    async def run(self) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=self._url, headers=headers, timeout=ANSWER_WITHIN_S) as client:
            while True:
                await self._read(client)
                await asyncio.sleep(self.random.expovariate(1 / self._pace_s))

    async def _read(self, client: httpx.AsyncClient) -> None:
        self.sent["read rows"] += 1
        path = f"/api/v1/rms/{self.random.choice(self._rm_ids)}/{self.random.choice(list(LISTS))}"
        gives_up = self.random.random() < GIVES_UP
        try:
            async with asyncio.timeout(self.random.uniform(0.0, 0.1) if gives_up else None):
                answer = await client.get(path, params=self._arguments())
        except TimeoutError:
            self.told["given up"] += 1
        except httpx.TimeoutException:
            self.unanswered.append(path)
        else:
            self.told[f"HTTP {answer.status_code}"] += 1
            if answer.status_code == 500:
                self.defects.append(f"{answer.request.url}: {answer.text[:200]}")

    def _arguments(self) -> dict[str, str]:
        """Mostly one row at a time, from the beginning: those of others stand before it."""
        if self.random.random() < 0.6:
            return {"limit": str(self.random.choice((1, 2, 1_000)))}
        return {name: self.random.choice(ODD) for name in self.random.sample(NAMES, 2)}


@asynccontextmanager
async def restricted_web(url: str, bus: Bus, data: Path) -> AsyncIterator[str]:
    """A web service in which it may read. Yields its URL."""
    tokens = data / "tokens-of-readers"
    tokens.write_text(f"{TOKEN} reader\n")

    def settings(**given: Any) -> WebSettings:
        return WebSettings(port=0, restricted=True, tokens=tokens, **given)

    chosen: Any = settings
    async with running(url, WEB, web_main, chosen):
        yield f"http://127.0.0.1:{(await address_of(bus, WEB))['port']}"
