"""Shell completion of rmIDs, queues, applications, nodes and so on, from the system that --nats or REMUDA_NATS_URL
selects.

An outage yields no completions and no error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .. import limits
from ..errors import UserError

if TYPE_CHECKING:
    from ..access.keys import Keys

NATS = "nats://127.0.0.1:4222"


def rms(ctx: typer.Context, incomplete: str) -> list[str]:
    return _matching(lambda: _rms(_url(ctx)), incomplete)


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    rm = _rm(ctx)
    return _matching(lambda: _queues(_url(ctx), rm), incomplete) if rm else []


def applications(ctx: typer.Context, incomplete: str) -> list[str]:
    """The applications of the RM of the command, or of all RMs."""
    return _fields(ctx, incomplete, "applications", "applications", "id", every_rm=True)


def queues_of_any(ctx: typer.Context, incomplete: str) -> list[str]:
    """The queues of all RMs, for commands that name none: a queue of the file."""

    async def ask() -> list[str]:
        url = _url(ctx)
        return sorted({path for rm in await _rms(url) for path in await _queues(url, rm)})[: limits.COMPLETIONS]

    return _matching(ask, incomplete)


def story_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Applications, and behind them nodes and queues, which are fewer and seldom meant."""

    async def ask() -> list[str]:
        rm, url = ctx.params.get("rm"), _url(ctx)
        found: dict[str, None] = {}
        for one in [str(rm)] if rm else await _rms(url):
            found |= dict.fromkeys(await _query(url, one, "applications", "applications", "id", incomplete))
            found |= dict.fromkeys(await _query(url, one, "nodes", "nodes", "id", incomplete))
            found |= dict.fromkeys(path for path in await _queues(url, one) if path.startswith(incomplete))
        return list(found)[: limits.COMPLETIONS]

    return _matching(ask, incomplete)


def versions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Numbers of versions of the configuration, the newest first."""

    async def ask() -> list[str]:
        from remuda_operations.queries import configuration

        from .connections import bus_at

        rm = ctx.params.get("rm")
        async with bus_at(_url(ctx)) as bus:
            found = await configuration.query(bus, "history", {"rm": rm} if rm else {})
        return [str(one["number"]) for one in found["versions"]]

    return _matching(ask, incomplete)


def dead_letters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Numbers of the newest dead letters of the RM."""

    async def ask() -> list[str]:
        from remuda_bus import subjects

        from .connections import bus_at
        from .stream_messages import messages_of

        subject = subjects.dead_letter(_rm(ctx) or "*")
        async with bus_at(_url(ctx)) as bus:
            found = [message.seq async for message in messages_of(bus, subjects.DEAD_LETTERS.name, subject)]
        return [str(number) for number in reversed(found[-limits.DEAD_LETTERS_SHOWN :])]

    return _matching(ask, incomplete)


def actions(ctx: typer.Context, incomplete: str) -> list[str]:
    """IDs of actions of operators in the RM, without the operator."""

    async def ask() -> list[str]:
        rm = _rm(ctx)
        found = await _query(_url(ctx), rm, "actions", "actions", "action_id", "") if rm else []
        return [one.partition("/")[2] for one in found]

    return _matching(ask, incomplete)


def operators(ctx: typer.Context, incomplete: str) -> list[str]:
    """The operators that have a key in the directory of keys."""
    try:
        found = _keys(ctx).operators()
    except (UserError, OSError):
        return []
    return [one.name for one in found if one.name.startswith(incomplete)]


def peloton_clients(ctx: typer.Context, incomplete: str) -> list[str]:
    """The Peloton clients that have a key in the directory of keys."""
    try:
        return [name for name in _keys(ctx).clients() if name.startswith(incomplete)]
    except (ValueError, OSError):
        return []


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    return _fields(ctx, incomplete, "nodes", "nodes", "id")


def allocations(ctx: typer.Context, incomplete: str) -> list[str]:
    return _fields(ctx, incomplete, "allocations", "allocations", "uuid")


def pending_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """The keys of the application's pending asks."""
    application = ctx.params.get("application")
    return _fields(ctx, incomplete, "explain", "asks", "key", application=str(application or ""))


def _fields(
    ctx: typer.Context, incomplete: str, kind: str, rows: str, field: str, every_rm: bool = False, application: str = ""
) -> list[str]:
    """The values of a field in the rows of a query, each once. `every_rm`: of all, where the command names none."""
    rm, url = _rm(ctx), _url(ctx)
    which = {"application": application} if application else {}

    async def ask() -> list[str]:
        rms = [rm] if rm else await _rms(url) if every_rm else []
        found = [await _query(url, one, kind, rows, field, incomplete, **which) for one in rms]
        return list(dict.fromkeys(name for names in found for name in names))[: limits.COMPLETIONS]

    return _matching(ask, incomplete)


def _rm(ctx: typer.Context) -> str:
    """The RM of the command. After an option without a value yet, the arguments before it are not parsed: it is the
    first of them."""
    return str(ctx.params.get("rm") or next(iter(ctx.args), ""))


def _url(ctx: typer.Context) -> str:
    return str(ctx.params.get("nats") or NATS)


def _matching(ask: Callable[[], Coroutine[object, object, list[str]]], incomplete: str) -> list[str]:
    import asyncio

    from ..terminal import event_loop

    async def soon() -> list[str]:
        async with asyncio.timeout(limits.COMPLETE_WITHIN_S):
            return await ask()

    try:
        return [name for name in event_loop.run(soon) if name.startswith(incomplete)]
    except (UserError, TimeoutError, OSError):
        return []


async def _rms(url: str) -> list[str]:
    from remuda_operations.queries.records import rm_ids

    from .connections import bus_at

    async with bus_at(url) as bus:
        return await rm_ids(bus)


async def _queues(url: str, rm: str) -> list[str]:
    from remuda_operations.queries import core as queries

    from .connections import bus_at

    async with bus_at(url) as bus:
        found = await queries.queues(bus, rm)
    return sorted({queue.path for partition in found.partitions for queue in partition.queues.with_all_below()})


async def _query(url: str, rm: str, kind: str, rows: str, field: str, prefix: str, **which: str) -> list[str]:
    """The first values that begin with `prefix`."""
    from remuda_operations.queries.core import pages_of
    from remuda_operations.queries.rows import Rows

    from .connections import bus_at

    found: dict[str, None] = {}
    async with bus_at(url) as bus:
        async for page in pages_of(bus, kind, Rows, rm=rm, **which):
            values = (str(row[field]) for row in getattr(page, rows) if field in row)
            found |= dict.fromkeys(value for value in values if value.startswith(prefix))
            if len(found) >= limits.COMPLETIONS:
                break
    return list(found)[: limits.COMPLETIONS]


def _keys(ctx: typer.Context) -> Keys:
    from ..access.keys import Keys

    return Keys(Path(ctx.params.get("keys") or "keys"))
