"""An operator changes limits of a stream while services run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.tests.running import finished
from remuda.embedded import NatsServer, free_port
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from tests.patience import PATIENCE
from tests.system.guarded import GuardedServer
from tests.system.running import process_of, until

LOG = subjects.LOG.name
HOUR_NS = 3_600_000_000_000


async def change(bus: NatsBus, **settings: Any) -> None:
    config = (await bus._jetstream.api(f"STREAM.INFO.{LOG}"))["config"]
    await bus._jetstream.api(f"STREAM.UPDATE.{LOG}", {**config, **settings})


async def has(bus: NatsBus, **settings: Any) -> bool:
    config = (await bus._jetstream.api(f"STREAM.INFO.{LOG}"))["config"]
    return {key: config.get(key, 0) for key in settings} == settings


async def said(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stderr is not None
    async with asyncio.timeout(30 * PATIENCE):
        while text not in (line := (await process.stderr.readline()).decode()):
            assert line, f"the process has ended without {text!r}"


async def test_what_is_ours_is_put_back(server: NatsServer, bus: NatsBus) -> None:
    async with process_of("core", server.url) as core:
        await said(core, "lease acquired")
        await change(bus, max_age=HOUR_NS, discard="old")
        await said(core, "somebody had changed a stream")
        assert await has(bus, max_age=0, discard="new")
        await change(bus, max_msgs=10)
        await until(lambda: has(bus, max_msgs=-1), 20)
        assert core.returncode is None


async def test_limits_that_lose_nothing_are_left_to_the_next_declaration(server: NatsServer, bus: NatsBus) -> None:
    """Versions may differ in them, and each works with the other's."""
    await change(bus, max_bytes=2**30)
    assert await bus.keep_settings() == {}
    assert await has(bus, max_bytes=2**30)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    server = GuardedServer(tmp_path / "nats")
    async with server:
        yield server


async def test_who_may_not_put_it_back_says_so_and_does_not_lead(
    guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from remuda_bus.nats import connect

    admin = await connect(guarded.url, "remuda-cli", access=guarded.access("admin"), timeout_s=10)
    await admin.declare()

    def credentials(role: str) -> dict[str, str]:
        access = guarded.access(role)
        return {"REMUDA_NATS_CA": str(access.ca), "REMUDA_NATS_SEED": str(access.seed)}

    for name, value in credentials("operator").items():
        monkeypatch.setenv(name, value)
    port = free_port("127.0.0.1")
    async with (
        process_of("core", guarded.url, **credentials("core")) as core,
        process_of("rmproxy", guarded.url, REMUDA_HEALTH_PORT=str(port), **credentials("rmproxy")) as rmproxy,
    ):
        await said(core, "lease acquired")
        await said(rmproxy, "lease acquired")
        await change(admin, max_age=HOUR_NS, discard="old")
        await said(rmproxy, "somebody has changed a stream, run `remuda declare`")
        status, page = await ready(port)
        assert status == 503 and "discard new, max_age 0 expected" in page["streams"][LOG]
        await said(core, "stream LOG: discard new, max_age 0 expected, and cannot be put back")
        assert await asyncio.wait_for(core.wait(), 10 * PATIENCE) == 1
        async with process_of("core", guarded.url, **credentials("core")) as again:
            await said(again, "run `remuda declare`")
            assert await asyncio.wait_for(again.wait(), 10 * PATIENCE) == 1
        code, text = await finished("status", "--nats", guarded.url)
        assert code == 1 and "LOG must have discard new, max_age 0" in " ".join(text.split()), text

        await admin.declare()
        await said(rmproxy, "all streams have their settings again")
        assert (await ready(port))[0] == 200
    await admin.close()


async def ready(port: int) -> tuple[int, dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: here\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), json.loads(body)
