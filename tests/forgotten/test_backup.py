"""`remuda backup` while everything runs, `remuda restore` into an empty server: what was quiet goes on as if nothing
had happened, and what has moved on is an alarm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from remuda.admin.backup import STREAMS
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Outgoing
from remuda_operations.queries import NoAnswer, RequestRefused
from remuda_operations.queries import core as queries
from tests.forgotten.lives import RM, WITHIN_S, Books, back_again, connected, halted, observer, remuda
from tests.forgotten.services import Services
from tests.system.running import until


def test_all_that_outlives_a_moment_is_in_a_backup() -> None:
    streams = {stream.name for stream in subjects.STREAMS}
    of_live_processes = (subjects.LEASES, subjects.LEADERS, subjects.FRONT_ENDS)
    buckets = {f"KV_{bucket.name}" for bucket in subjects.BUCKETS if bucket not in of_live_processes}
    assert set(STREAMS) == streams | buckets | {f"OBJ_{bucket.name}" for bucket in subjects.OBJECT_BUCKETS}


async def saved(server: NatsServer, directory: Path) -> None:
    said = await remuda("backup", str(directory), "--nats", server.url)
    assert "saved: " in said, said


async def put_back(server: NatsServer, directory: Path) -> None:
    """Into an empty server, at the same place."""
    await server.stop()
    shutil.rmtree(server.data_dir / "jetstream")
    await server.start()
    said = await remuda("restore", str(directory), "--nats", server.url)
    assert "restored." in said, said


@contextlib.asynccontextmanager
async def with_a_backup(server: NatsServer, directory: Path) -> AsyncIterator[tuple[Services, Books]]:
    """Of three allocations."""
    async with Services(server.url) as services, connected(server) as rm:
        books = Books(rm)
        await books.report()
        await books.run("a", "b", "c")
        await saved(server, directory)
        yield services, books


async def test_an_rm_that_was_quiet_goes_on(server: NatsServer, tmp_path: Path) -> None:
    async with with_a_backup(server, tmp_path / "backup") as (services, books):
        await services.stop()
        await put_back(server, tmp_path / "backup")
        services.start()
        await books.run("x", "y")
        bus = await observer(server)
        [n1] = (await queries.nodes(bus, RM)).partitions[0].nodes
        assert n1.allocations == len(books.running) == 5
        assert await bus.get(subjects.HALTS.name, subjects.key_of(RM)) is None
        await bus.close()


async def test_an_rm_that_knows_more_is_halted_and_rebuilt(server: NatsServer, tmp_path: Path) -> None:
    async with with_a_backup(server, tmp_path / "backup") as (services, books):
        await books.run("d", "e")
        await services.stop()
        await put_back(server, tmp_path / "backup")
        services.start()
        bus = await observer(server)
        await halted(bus)
        await back_again(server, bus, books, tmp_path)
        await bus.close()


async def test_what_is_saved_under_load_fits_together(server: NatsServer, tmp_path: Path) -> None:
    """Without a newer position anywhere, the backup is accepted as the history."""
    async with Services(server.url) as services, connected(server) as rm:
        books = Books(rm)
        await books.report()
        load = asyncio.create_task(books.run(*(f"k{number}" for number in range(500))))
        await books.until(5)
        await saved(server, tmp_path / "backup")
        then = len(books.running)
        load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load
    await services.stop()
    await put_back(server, tmp_path / "backup")
    async with Services(server.url):
        bus = await observer(server)

        async def led() -> bool:
            with contextlib.suppress(RequestRefused, NoAnswer):
                return bool((await queries.nodes(bus, RM)).partitions)
            return False

        await until(led, WITHIN_S)
        [n1] = (await queries.nodes(bus, RM)).partitions[0].nodes
        assert 5 <= n1.allocations <= then + 1
        assert await bus.get(subjects.HALTS.name, subjects.key_of(RM)) is None
        await bus.close()


async def test_nothing_is_overwritten(server: NatsServer, tmp_path: Path) -> None:
    bus = await observer(server)
    await bus.declare()
    await bus.close()
    await saved(server, tmp_path / "backup")
    again = await remuda("backup", str(tmp_path / "backup"), "--nats", server.url)
    assert "exists already; expected a new directory" in again
    assert "already" in await remuda("restore", str(tmp_path / "backup"), "--nats", server.url)
    (tmp_path / "backup" / "LOG" / "backup.json").unlink()
    assert "incomplete backup, missing LOG" in await remuda("restore", str(tmp_path / "backup"), "--nats", server.url)
    async with Services(server.url):
        shutil.copytree(tmp_path / "backup" / "INBOX", tmp_path / "backup" / "LOG", dirs_exist_ok=True)
        assert "stop them first" in await remuda("restore", str(tmp_path / "backup"), "--nats", server.url)


async def test_a_large_backup_is_put_back_into_a_directory(server: NatsServer, tmp_path: Path) -> None:
    """With its sequences, and saying how far it is."""
    bus = await observer(server)
    await bus.declare()
    for _ in range(20):
        await bus.append_all([Outgoing(subjects.inbox("a"), os.urandom(300)) for _ in range(1_000)], timeout_s=30)
    last = await bus.last_message(subjects.INBOX.name, subjects.inbox("a"))
    await bus.close()
    await saved(server, tmp_path / "backup")
    said = await remuda("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "new"))
    assert "INBOX: 20,000 messages" in said and "restored." in said, said
    async with NatsServer(tmp_path / "new") as other:
        bus = await observer(other)
        assert await bus.last_message(subjects.INBOX.name, subjects.inbox("a")) == last
        await bus.close()
    assert "already" in await remuda("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "new"))
