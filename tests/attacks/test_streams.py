"""Requests and refusals of one RM that would fill the streams which all RMs share. The bounds are small
(`tests/tenants/small_bounds`), and so are the floods that exceed them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application, ask
from tests.tenants import SMALL_BOUNDS
from tests.tenants.hostile import Hostile

from .ground import LONGER_S, Ground, ground

MB = 1_000_000
AT_ONCE = 8
WITHIN_S = 60.0


@pytest.fixture
async def small(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    monkeypatch.setenv("PYTHONPATH", f"{SMALL_BOUNDS}:{os.environ.get('PYTHONPATH', '')}")
    with tempfile.TemporaryDirectory(prefix="remuda-small-") as data:
        async with ground(Path(data)) as prepared:
            yield prepared


async def flood(rm: Hostile, kind: str, request: bytes, size: int) -> int:
    """Publish as fast as the server accepts. Returns the number of requests that the server has refused."""
    requests = iter(range(size // len(request)))
    refused = 0

    async def publish() -> None:
        nonlocal refused
        for _ in requests:
            refused += await rm.send(kind, request) is None

    await asyncio.gather(*(publish() for _ in range(AT_ONCE)))
    return refused


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)


async def held_mb(bus: Bus, stream: subjects.Stream) -> float:
    return await bus.fullness(stream.name) * stream.max_bytes / MB


async def test_more_requests_than_the_core_keeps_up_with(small: Ground) -> None:
    """Requests beyond the bound of the RM are refused and reported, also while its inbox is full.

    Side RMs wait for 1 to 2 s on a busy machine, longer than in other attacks. Neither disk nor cores take that time:
    beside the flood an append takes at most 0.15 s, and a query 0.35 s. The rest is the way through REQUESTS:
    rmproxy reads it in the order of the stream, so a request waits for the megabytes before it."""
    bus = small.system.bus
    async with small.attack(longer_s=3 * LONGER_S) as rm:
        await rm.register()
        await rm.submit(application("app", queue="root.a", user="ann"))
        asks = [ask("app", f"k{number}", count=1_000, vcore=1, tags={"t": "x" * 400}) for number in range(1_000)]
        request = si.AllocationRequest(rmID=rm.rm_id, asks=asks).SerializeToString()
        assert not await flood(rm, "allocation", request, 60 * MB)
        await eventually(lambda: is_below(bus, subjects.REQUESTS, 16 + 4))
        assert await rm.callbacks("dead_letter", lambda record: "requests of this RM wait" in record.message)
        assert await bus.message_count(subjects.DEAD_LETTERS.name, subjects.dead_letter(rm.rm_id)) > 1


async def is_below(bus: Bus, stream: subjects.Stream, mb: float) -> bool:
    return await held_mb(bus, stream) < mb


async def test_requests_of_which_nothing_comes(small: Ground) -> None:
    """They make snapshots due, and the inbox is trimmed behind the snapshots although it is young."""
    async with small.attack() as rm:
        await rm.register()
        releases = [si.AllocationAskRelease(applicationID="none", allocationKey="k" * 1_000) for _ in range(200)]
        request = si.AllocationRequest(
            rmID=rm.rm_id, releases=si.AllocationReleasesRequest(allocationAsksToRelease=releases)
        ).SerializeToString()
        for _ in range(10):  # beneath what may wait
            await flood(rm, "allocation", request, 8 * MB)
            await eventually(lambda: is_below(small.system.bus, subjects.REQUESTS, 2))
        await eventually(lambda: is_below(small.system.bus, subjects.INBOX, 40))


async def test_dead_letters_of_one_rm_leave_those_of_others(small: Ground) -> None:
    bus = small.system.bus
    async with small.attack() as rm:
        other = Hostile(rm.client, f"{rm.rm_id}-other")
        await other.send("node", b"\xff")
        await rm.register()
        await flood(rm, "node", b"\xff" * MB, 20 * MB)
        await flood(rm, "node", b"\xff" * 10_000, 15 * MB)
        subject = subjects.dead_letter(rm.rm_id)
        await eventually(lambda: has_messages(bus, subject, subjects.DEAD_LETTERS.max_msgs_per_subject))
        assert await held_mb(bus, subjects.DEAD_LETTERS) < 12
        assert await bus.last_message(subjects.DEAD_LETTERS.name, subjects.dead_letter(other.rm_id))


async def has_messages(bus: Bus, subject: str, count: int) -> bool:
    return await bus.message_count(subjects.DEAD_LETTERS.name, subject) == count
