"""The health pages of a process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_bus.bus import Full
from remuda_bus.health import Health
from remuda_bus.nats import Access, connect, jetstream
from remuda_replication.process.health_pages import served

PORT = 18_080


async def get(page: str) -> tuple[int, dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET {page} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), json.loads(body)


async def test_a_service_is_ready_when_it_works_and_the_bus_answers(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        bus = await connect(server.url, "remuda-test", timeout_s=5)
        health = Health()
        async with served(bus, PORT, health):
            assert (await get("/livez"))[0] == 200
            code, said = await get("/readyz")
            assert (code, said["doing"]) == (503, "starting")
            health.set_status("works")
            code, said = await get("/readyz")
            assert code == 503 and "stream not found" in said["bus"]  # not declared yet
            await bus.declare()
            assert await get("/readyz") == (200, {"ready": True, "doing": "works", "bus": "answers"})
            health.set_status("catches up", ready=False)
            assert (await get("/readyz"))[0] == 503
            health.set_status("works")
            await server.stop()
            code, said = await get("/readyz")
            assert code == 503 and said["doing"] == "works"
            assert (await get("/livez"))[0] == 200  # a restart would not help
            assert (await get("/"))[0] == 404
        await bus.close()


async def test_without_a_port_no_pages_are_served() -> None:
    async with served(None, 0):
        with pytest.raises(OSError):
            await get("/livez")


def test_access_names_the_variable_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMUDA_NATS_CA", str(tmp_path / "none.pem"))
    with pytest.raises(ValueError, match="REMUDA_NATS_CA=.*none.pem: no such file"):
        Access.from_environment()
    (tmp_path / "none.pem").write_text("no certificate")
    with pytest.raises(ValueError, match="REMUDA_NATS_CA"):
        Access.from_environment().options()
    with pytest.raises(ValueError, match="expected the servers' CA"):
        Access(cert=tmp_path / "none.pem").options()


def test_a_full_disk_is_reported_until_the_server_stores_again(monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health()
    monkeypatch.setattr(jetstream, "PROCESS_HEALTH", health)
    error = {"code": 503, "err_code": 10077, "description": "write 1.blk: no space left on device"}
    assert isinstance(jetstream.failure("remuda.log.a", error), Full)
    assert health.storage_fault == "remuda.log.a: write 1.blk: no space left on device"
    jetstream.failure("remuda.log.a", {"code": 400, "err_code": 10071, "description": "wrong last sequence"})
    assert health.storage_fault
    jetstream._sequence("remuda.log.a", b'{"stream": "LOG", "seq": 7}')
    assert not health.storage_fault
