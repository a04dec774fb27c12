"""A NATS server that is too old, or takes no large messages, is refused with what it has and what is needed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus.bus import Bus, UnsuitableServer
from remuda_bus.nats import connect
from remuda_replication.process import Settings, run


class StatedVersion:
    """In front of a real server, states another version than that has."""

    def __init__(self, server: NatsServer, version: str) -> None:
        self._server = server
        self.version = version
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[StatedVersion]:
        listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            listener.close()
            await self.cut()

    async def cut(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._server.host, self._server.port)
        info = await from_server.readline()
        writer.write(re.sub(rb'"version":"[^"]*"', b'"version":"%s"' % self.version.encode(), info))
        try:
            with suppress(OSError):
                await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))
        finally:
            writer.close()
            to_server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(65_536):
        writer.write(some)
        await writer.drain()
    writer.close()


@pytest.mark.parametrize("version", ["2.10.7", "2.12.3", "1.4.1", "v2.13.9-RC.1"])
async def test_an_older_server_is_refused(server: NatsServer, version: str) -> None:
    async with StatedVersion(server, version).listening() as stated:
        with pytest.raises(UnsuitableServer, match=f"has version {re.escape(version)}, expected 2.14 or later"):
            await connect(stated.url, "remuda-core", timeout_s=5)


@pytest.mark.parametrize("version", ["2.14.0", "2.15.1", "3.0.0-beta", "dev"])
async def test_other_versions_are_taken(server: NatsServer, version: str) -> None:
    async with StatedVersion(server, version).listening() as stated:
        bus = await connect(stated.url, "remuda-core", timeout_s=5)
        await bus.close()


async def test_a_server_that_was_downgraded_ends_the_connection(server: NatsServer) -> None:
    async with StatedVersion(server, "2.15.1").listening() as stated:
        bus = await connect(stated.url, "remuda-core", timeout_s=5)
        stated.version = "2.12.8"
        await stated.cut()
        async with asyncio.timeout(10):
            assert "has version 2.12.8, expected 2.14 or later" in await bus.closed()
        await bus.close()


def test_a_small_max_payload_is_refused_by_services(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def main(bus: Bus, settings: Settings) -> None:
        raise AssertionError("it must not start")

    server = NatsServer(tmp_path / "nats", max_payload=512)
    asyncio.run(server.start())
    try:
        with pytest.raises(SystemExit):
            run("test", main, Settings(nats_url=server.url, instance="test-1"))
    finally:
        asyncio.run(server.stop())
    assert "max_payload of the NATS server is 512 bytes, expected at least 1048576" in capfd.readouterr().err
