"""`remuda backup` and `remuda restore`: all streams and buckets in a directory, two files each, as those of the `nats`
command: `backup.json` says what it is, `stream.tar.s2` is what the server has packed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from remuda_bus import subjects
from remuda_bus.bus import BusError, Unreadable
from remuda_bus.limits import CHUNK_BYTES
from remuda_bus.nats import Access
from remuda_bus.nats.backup import About, restore, save
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.jetstream import JetStream

from . import limits, loop
from .errors import UserError
from .ready import Pinger
from .terminal import console

ABOUT, PACKED = "backup.json", "stream.tar.s2"
# One after the other, while everything runs: what is made from something else comes before it, so that nothing in a
# backup tells of what is not in it. Requests and registrations come last, whose numbers must not be given out twice.
# Leases are of the moment.
STREAMS = (
    subjects.EVENTS.name,
    f"KV_{subjects.EVENT_BOOKMARKS.name}",
    subjects.CALLBACKS.name,
    f"OBJ_{subjects.SNAPSHOTS.name}",
    subjects.LOG.name,
    subjects.INBOX.name,
    subjects.REQUESTS.name,
    subjects.DEAD_LETTERS.name,
    f"KV_{subjects.HALTS.name}",
    f"KV_{subjects.CONFIGURATIONS.name}",
    f"KV_{subjects.RMS.name}",
)


def backup(url: str, directory: Path) -> None:
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise UserError(f"{directory}: there is something already; nothing is overwritten") from None
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    loop.run(lambda: _backup(url, directory))
    console.print(f"saved: {directory}")


def put_back(url: str, directory: Path) -> None:
    missing = [stream for stream in STREAMS if not (directory / stream / ABOUT).is_file()]
    if missing:
        raise UserError(f"{directory}: no complete backup, without {', '.join(missing)}")
    loop.run(lambda: _restore(url, directory))
    console.print("restored. Start the services, then `remuda rebuild` each RM that has seen more than this backup has")


async def _backup(url: str, directory: Path) -> None:
    async with _jetstream(url) as jetstream:
        for stream in STREAMS:
            into = directory / stream
            await asyncio.to_thread(into.mkdir)
            with (into / PACKED).open("wb") as file:
                about = await save(jetstream, stream, file.write)
            (into / ABOUT).write_text(json.dumps(about))  # the last: without it, there is no backup
            _say(about)


async def _restore(url: str, directory: Path) -> None:
    async with Pinger(url) as pinger:
        running = {answer.service for answer in await pinger.ping()}
    if running:
        raise UserError(f"{url}: {', '.join(sorted(running))} still run: stop them first")
    async with _jetstream(url) as jetstream:
        for stream in STREAMS:
            if await _exists(jetstream, stream):
                raise UserError(f"{url}: there is a stream {stream} already. Servers with empty volumes are wanted")
        for stream in STREAMS:
            about: About = json.loads((directory / stream / ABOUT).read_text())
            await restore(jetstream, about, _pieces(directory / stream / PACKED))
            _say(about)


@contextlib.asynccontextmanager
async def _jetstream(url: str) -> AsyncIterator[JetStream]:
    connection = Connection(url, "remuda-cli", Access.from_environment())
    try:
        await connection.open(limits.CONNECT_WITHIN_S)
        yield JetStream(connection)
    except (BusError, OSError) as error:
        raise UserError(f"{url}: {error}") from None
    finally:
        await connection.close()


async def _exists(jetstream: JetStream, stream: str) -> bool:
    try:
        await jetstream.api(f"STREAM.INFO.{stream}")
    except Unreadable:
        return False
    return True


def _pieces(packed: Path) -> Iterator[bytes]:
    with packed.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _say(about: About) -> None:
    messages = about["state"]["messages"]
    console.print(f"{about['config']['name']}: {messages:,} message{'' if messages == 1 else 's'}")
