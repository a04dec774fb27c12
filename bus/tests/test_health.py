"""What a process says of itself over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_bus.health import Health, served
from remuda_bus.nats import Access, connect

PORT = 18_080


async def get(page: str) -> tuple[int, dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET {page} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), json.loads(body)


async def test_ready_is_who_works_on_a_bus_that_answers(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        bus = await connect(server.url, "remuda-test", timeout_s=5)
        health = Health()
        async with served(bus, PORT, health):
            assert (await get("/livez"))[0] == 200
            code, said = await get("/readyz")
            assert (code, said["doing"]) == (503, "starting")
            health.say("works")
            code, said = await get("/readyz")
            assert code == 503 and "stream not found" in said["bus"]  # not declared yet
            await bus.declare()
            assert await get("/readyz") == (200, {"ready": True, "doing": "works", "bus": "answers"})
            health.say("catches up", ready=False)
            assert (await get("/readyz"))[0] == 503
            health.say("works")
            await server.stop()
            code, said = await get("/readyz")
            assert code == 503 and said["doing"] == "works"
            assert (await get("/livez"))[0] == 200  # a restart would not help
            assert (await get("/"))[0] == 404
        await bus.close()


async def test_without_a_port_nobody_is_told() -> None:
    async with served(None, 0):  # type: ignore[arg-type]
        with pytest.raises(OSError):
            await get("/livez")


def test_access_names_the_variable_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMUDA_NATS_CA", str(tmp_path / "none.pem"))
    with pytest.raises(ValueError, match="REMUDA_NATS_CA=.*none.pem: no such file"):
        Access.from_environment()
    (tmp_path / "none.pem").write_text("no certificate")
    with pytest.raises(ValueError, match="REMUDA_NATS_CA"):
        Access.from_environment().options()
    with pytest.raises(ValueError, match="which servers are to be trusted"):
        Access(cert=tmp_path / "none.pem").options()
