"""`remuda backup` and `remuda restore`: all streams and buckets in a directory, with the two files per stream of the
`nats` command: `backup.json` (metadata) and `stream.tar.s2` (packed by the server)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rich.status import Status

from remuda_bus import subjects
from remuda_bus.bus import Unreadable
from remuda_bus.limits import CHUNK_BYTES
from remuda_bus.nats.backup import About, restore, save
from remuda_bus.nats.jetstream import JetStream

from .. import limits
from ..client.connections import jetstream_at
from ..client.service_ping import Pinger
from ..embedded import NatsServer, ServerError
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import duration, size

# Of Peloton's resource manager, in the order of the backup.
PELOTON = (f"OBJ_{subjects.PELOTON_SNAPSHOTS.name}", subjects.PELOTON_LOG.name, subjects.PELOTON_INBOX.name)
# Backups of older versions lack these. Services create them empty.
LATER = {f"KV_{bucket.name}" for bucket in (subjects.FAULTS, subjects.FORGOTTEN)}.union(PELOTON, (
    subjects.LEDGER.name, f"OBJ_{subjects.LEDGERS.name}",
))  # fmt: skip
# nats-server aborts a restore when one chunk takes more than 5 s. It syncs each message.
SLOW = (
    "The server syncs each message, and its disk is too slow for that: set `sync_interval: 10s` during the "
    "restore, or use --data"
)
ABOUT, PACKED = "backup.json", "stream.tar.s2"
# The order of the backup, while services run. Derived streams come before their source, so that a backup contains the
# source of all it refers to. Requests and registrations come last, because their numbers must never be assigned twice.
# Leases and leaders are not saved.
STREAMS = (
    subjects.EVENTS.name,
    subjects.LEDGER.name,
    f"KV_{subjects.EVENT_BOOKMARKS.name}",
    # After the bookmark that names one: the one before is kept.
    f"OBJ_{subjects.LEDGERS.name}",
    subjects.CALLBACKS.name,
    f"OBJ_{subjects.SNAPSHOTS.name}",
    subjects.LOG.name,
    subjects.INBOX.name,
    *PELOTON,
    subjects.REQUESTS.name,
    subjects.DEAD_LETTERS.name,
    f"KV_{subjects.FAULTS.name}",
    f"KV_{subjects.HALTS.name}",
    f"KV_{subjects.CONFIGURATION_VERSIONS.name}",
    f"KV_{subjects.CONFIGURATIONS.name}",
    f"KV_{subjects.RMS.name}",
    # After RMS: the life of an RM that is forgotten in between is in one of the two.
    f"KV_{subjects.FORGOTTEN.name}",
)


def backup(url: str, directory: Path) -> None:
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise UserError(f"{directory}: exists already; expected a new directory") from None
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    event_loop.run(lambda: _backup(url, directory))
    console.print(f"saved: {directory}")


def restore_backup(url: str, directory: Path, data: Path | None) -> None:
    """Restores a backup. `data`: the directory of a stopped `remuda up`; a temporary server restores into it."""
    missing = [stream for stream in STREAMS if stream not in LATER and stream not in _saved(directory)]
    if missing:
        raise UserError(f"{directory}: incomplete backup, missing {', '.join(missing)}")
    event_loop.run(lambda: _restore(url, directory) if data is None else _restore_into(data, directory))
    console.print(
        "the backup is restored. Start the services, then run `remuda rebuild` for each RM that is newer than it"
    )


async def _backup(url: str, directory: Path) -> None:
    async with jetstream_at(url) as jetstream:
        for stream in STREAMS:
            into = directory / stream
            await asyncio.to_thread(into.mkdir)
            with (into / PACKED).open("wb") as file, _progress(f"{stream} saved") as taken:
                about = await save(jetstream, stream, _writing(file, taken))
            (into / ABOUT).write_text(json.dumps(about))  # written last: marks the stream as complete
            _print_count(about)


def _saved(directory: Path) -> list[str]:
    return [stream for stream in STREAMS if (directory / stream / ABOUT).is_file()]


def _writing(file: BinaryIO, taken: Callable[[int], None]) -> Callable[[bytes], None]:
    return lambda piece: taken(file.write(piece))


async def _restore_into(data: Path, directory: Path) -> None:
    """Restore without a sync per message, which is many times faster. Everything is synced at the end."""
    try:
        async with NatsServer(data, sync="10s") as server:
            await _restore(server.url, directory)
    except (ServerError, OSError) as error:
        raise UserError(f"--data {data}: {error}") from None
    await asyncio.to_thread(os.sync)


async def _restore(url: str, directory: Path) -> None:
    async with Pinger(url) as pinger:
        running = {answer.service for answer in await pinger.ping(limits.ABSENT_AFTER_S)}
    if running:
        raise UserError(f"{url}: services are running ({', '.join(sorted(running))}): stop them first")
    async with jetstream_at(url) as jetstream:
        for stream in STREAMS:
            if await _exists(jetstream, stream):
                raise UserError(f"{url}: stream {stream} exists already; expected servers with empty volumes")
        found = [directory / stream for stream in _saved(directory)]
        with _progress("restored", sum((one / PACKED).stat().st_size for one in found)) as taken:
            for one in found:
                await _restore_one(jetstream, one, taken)


async def _restore_one(jetstream: JetStream, directory: Path, taken: Callable[[int], None]) -> None:
    try:
        about: About = json.loads((directory / ABOUT).read_text())
        if about["config"]["name"] != directory.name:
            raise ValueError(f"of stream {about['config']['name']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{directory / ABOUT}: the file was not written by `remuda backup`: {error}") from None
    try:
        await restore(jetstream, about, _pieces(directory / PACKED), taken)
    except Unreadable as error:
        raise UserError(f"{error}. {SLOW}" if "closed pipe" in str(error) else str(error)) from None
    _print_count(about)


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


def _print_count(about: About) -> None:
    messages = about["state"]["messages"]
    console.print(f"{about['config']['name']}: {messages:,} message{'' if messages == 1 else 's'}")


@contextlib.contextmanager
def _progress(what: str, total: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress in bytes: a live line on a terminal, a line every few seconds elsewhere. Yields a function that
    takes the bytes of each step. `total` 0: unknown."""
    done, began, said = 0, time.monotonic(), time.monotonic()
    live = console.is_terminal

    def step(count: int) -> None:
        nonlocal done, said
        done += count
        now = time.monotonic()
        if now - said < (limits.PROGRESS_DRAWN_EVERY_S if live else limits.PROGRESS_LINE_EVERY_S):
            return
        said = now
        text = _progress_text(what, done, total, now - began)
        if live:
            status.update(text)
        else:
            console.print(text, markup=False, soft_wrap=True)

    with Status(f"0 {what}", console=console) if live else contextlib.nullcontext() as shown:
        status = shown or Status("")
        yield step


def _progress_text(what: str, done: int, total: int, elapsed_s: float) -> str:
    if not total:
        return f"{size(done)} {what}"
    left_ms = elapsed_s * 1_000 * max(0, total - done) / max(1, done)
    return f"{size(done)} of {size(total)} {what} ({done / total:.0%}), about {duration(left_ms)} left"
