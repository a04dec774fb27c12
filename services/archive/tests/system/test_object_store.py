"""The archive in a bucket of a real S3 server: rclone serves a directory with the interface of S3."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded.nats_server import free_port
from remuda_archive.store import Store, StoreFailed
from remuda_bus.memory import MemoryBus
from services.archive.tests.copies import HOUR, NOON, archived, copied, findings, held, streams, write
from tests.patience import PATIENCE

RCLONE = Path(sys.executable).parent / "rclone"
BUCKET = "past"
KEY, SECRET = "remuda", "a-secret-of-tests"


class S3:
    """An S3 server with one bucket. It can be ended like a server that loses its power, and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port("127.0.0.1")
        (directory / BUCKET).mkdir(parents=True)

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            str(RCLONE), "serve", "s3", "--addr", f"127.0.0.1:{self._port}", "--auth-key", f"{KEY},{SECRET}",
            str(self._directory),
            env=os.environ | {"RCLONE_CONFIG": "/dev/null"}, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(30.0 * PATIENCE):
            while not await self._answers():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def _answers(self) -> bool:
        assert self._process.returncode is None, "the S3 server has ended"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    def store(self, secret: str = SECRET) -> Store:
        return Store.open(
            f"s3://{BUCKET}/remuda",
            {
                "aws_endpoint": f"http://127.0.0.1:{self._port}", "aws_region": "us-east-1",
                "aws_access_key_id": KEY, "aws_secret_access_key": secret,
            },
        )  # fmt: skip


@pytest.fixture
async def bus() -> MemoryBus:
    bus = MemoryBus()
    await bus.declare()
    return bus


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3]:
    server = S3(tmp_path / "s3")
    await server.start()
    yield server
    await server.kill()


async def test_a_bucket_has_what_the_streams_had(bus: MemoryBus, s3: S3) -> None:
    store = s3.store()
    await write(bus, NOON, NOON + 1)
    await copied(bus, store)
    await write(bus, NOON + HOUR)
    await copied(bus, store)
    assert await archived(store) == await streams(bus)
    assert await findings(store) == []


async def test_a_server_that_was_away_misses_nothing(bus: MemoryBus, s3: S3) -> None:
    store = s3.store()
    await write(bus, NOON)
    await copied(bus, store)
    await s3.kill()
    await write(bus, NOON + 1, NOON + HOUR)
    with pytest.raises(StoreFailed, match=f"s3://{BUCKET}/remuda"):
        await copied(bus, store)
    await s3.start()
    await copied(bus, store)
    assert await archived(store) == await streams(bus)
    assert await findings(store) == []


async def test_lost_objects_are_written_again(bus: MemoryBus, s3: S3) -> None:
    store = s3.store()
    for hour in range(4):
        await write(bus, NOON + hour * HOUR)
        await copied(bus, store)
    _, second, _, last = [one.name for one in (await held(store)).segments]
    await store.delete(second)
    assert len(await findings(store)) == 1
    await store.delete(last)
    await copied(bus, store)  # what the log still has is copied again
    assert await archived(store) == await streams(bus)
    assert await findings(store) == []


async def test_a_wrong_key_is_named(s3: S3) -> None:
    with pytest.raises(StoreFailed, match="403|AccessDenied|SignatureDoesNotMatch"):
        await s3.store(secret="another").names()
