"""How long a request that several processes answer is waited for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from remuda_bus.nats.connection import _quiet


async def test_it_ends_when_no_answer_follows_and_waits_for_the_first() -> None:
    replies: list[Any] = []

    begun = time.monotonic()
    for ms in (20, 40, 60):
        asyncio.get_running_loop().call_later(ms / 1_000, replies.append, object())
    await _quiet(replies, 30.0, 0.2)
    assert len(replies) == 3 and 0.2 <= time.monotonic() - begun < 15


async def test_without_an_answer_it_takes_its_time() -> None:
    begun = time.monotonic()
    await _quiet([], 0.1, 0.01)
    await _quiet([], 0.1, None)
    assert time.monotonic() - begun >= 0.19
