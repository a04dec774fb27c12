"""Parts of the stack are cut off or killed while an RM works; then all records agree: none is lost or doubled.

The RM is a process outside, with a key of its own; what it has written down is compared with what the core says and
with what its log says (tests/accounting).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_replication.lease import leader_of as core_of
from tests.accounting.books import Books, Plan
from tests.accounting.verify import verify
from tests.e2e.stack import SERVERS, Stack, in_thread

ASKS, RATE = 6_000, 250.0
AFTER_S, LASTS_S = 5.0, 8.0  # of work, the fault comes; so long it lasts
SETTLED_WITHIN_S = 120.0

pytestmark = pytest.mark.timeout(400)


@contextlib.asynccontextmanager
async def working(stack: Stack, rm_id: str, journal: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the RM until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.accounting.rm", stack.url, rm_id, str(journal), str(ASKS), str(RATE),
        env={**os.environ, **stack.environment(rm_id)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def settled(process: asyncio.subprocess.Process) -> None:
    """Returns when the RM reports that its plan is complete."""
    assert process.stdout is not None
    async with asyncio.timeout(SETTLED_WITHIN_S):
        async for line in process.stdout:
            if line.startswith(b"{") and json.loads(line)["settled"]:  # else it is a line of a log
                return
    raise AssertionError(f"the RM ended with code {await process.wait()}")


Fault = Callable[[Stack, Bus, str], Awaitable[None]]


async def core_cut_off(stack: Stack, admin: Bus, rm_id: str) -> None:
    leader = await core_of(admin, rm_id)
    assert leader is not None
    await cut_for_a_while(stack, leader)
    assert await core_of(admin, rm_id) not in (None, leader), "nobody has taken over"


async def rmproxy_cut_off(stack: Stack, admin: Bus, rm_id: str) -> None:
    await cut_for_a_while(stack, await holder(admin, subjects.RMPROXY_LEASE))


async def server_killed(stack: Stack, admin: Bus, rm_id: str) -> None:
    leader = await leader_of(admin, subjects.LOG.name)
    await kill_for_a_while(stack, next(name for name in SERVERS if name != leader))


async def stream_leader_killed(stack: Stack, admin: Bus, rm_id: str) -> None:
    await kill_for_a_while(stack, await leader_of(admin, subjects.LOG.name))


@pytest.mark.parametrize(
    ("rm_id", "fault"),
    [
        ("e2e-core", core_cut_off),
        ("e2e-nats", server_killed),
        ("e2e-nats-leader", stream_leader_killed),
        ("e2e-rmproxy", rmproxy_cut_off),
    ],
)
async def test_nothing_is_lost_and_nothing_doubled(
    stack: Stack, admin: Bus, tmp_path: Path, rm_id: str, fault: Fault
) -> None:
    journal = tmp_path / "journal"
    async with working(stack, rm_id, journal) as process:
        await asyncio.sleep(AFTER_S)
        await fault(stack, admin, rm_id)
        await settled(process)
        books = Books.open(Plan(asks=ASKS, rate=RATE), journal)
        assert await verify(admin, rm_id, books) == []


async def cut_for_a_while(stack: Stack, name: str) -> None:
    await in_thread(stack.cut, name)
    await asyncio.sleep(LASTS_S)
    await in_thread(stack.join, name)
    await in_thread(stack.until_well, name)


async def kill_for_a_while(stack: Stack, name: str) -> None:
    await in_thread(stack.kill, name)
    await asyncio.sleep(LASTS_S)
    await in_thread(stack.start, name)
    await in_thread(stack.until_well, name)


async def holder(admin: Bus, lease: str) -> str:
    entry = await admin.get(subjects.LEASES.name, lease)
    assert entry is not None and entry.value is not None, f"nobody holds {lease}"
    return str(json.loads(entry.value)["holder"])


async def leader_of(admin: Bus, stream: str) -> str:
    reply = await admin.request(f"$JS.API.STREAM.INFO.{stream}")
    return str(json.loads(reply.payload)["cluster"]["leader"])
