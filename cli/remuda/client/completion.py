"""Shell completion of rmIDs and queues, from the system that --nats or REMUDA_NATS_URL selects.

An outage yields no completions and no error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import typer

from .. import limits
from ..errors import UserError

NATS = "nats://127.0.0.1:4222"


def rms(ctx: typer.Context, incomplete: str) -> list[str]:
    return _matching(lambda: _rms(_url(ctx)), incomplete)


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    rm = ctx.params.get("rm")
    return _matching(lambda: _queues(_url(ctx), str(rm)), incomplete) if rm else []


def _url(ctx: typer.Context) -> str:
    return str(ctx.params.get("nats") or NATS)


def _matching(ask: Callable[[], Coroutine[object, object, list[str]]], incomplete: str) -> list[str]:
    from ..terminal import event_loop

    async def soon() -> list[str]:
        async with asyncio.timeout(limits.COMPLETE_WITHIN_S):
            return await ask()

    try:
        return [name for name in event_loop.run(soon) if name.startswith(incomplete)]
    except (UserError, TimeoutError, OSError):
        return []


async def _rms(url: str) -> list[str]:
    from remuda_bus import subjects

    from .bucket_entries import registered_rms
    from .connections import bus_at

    async with bus_at(url) as bus:
        return [subjects.rm_of_key(entry.key) for entry in await registered_rms(bus)]


async def _queues(url: str, rm: str) -> list[str]:
    from . import queries
    from .connections import bus_at

    async with bus_at(url) as bus:
        found = await queries.queues(bus, rm)
    below = [partition.queues for partition in found.partitions]
    paths = []
    while below:
        queue = below.pop()
        paths.append(queue.path)
        below += queue.children
    return sorted(set(paths))
