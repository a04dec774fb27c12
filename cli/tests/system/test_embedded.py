"""The embedded nats-server: up when it says so, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import psutil
import pytest

from remuda.embedded import NatsServer, ServerError, memory
from remuda_bus.nats import connect

CHILD = """
import asyncio, sys
from remuda.embedded import memory
from remuda.embedded import NatsServer

async def main():
    async with NatsServer(sys.argv[1]) as server:
        print(server.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def until(condition: object, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    """Whether the process has ended, also as a zombie."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_what_was_written_is_there_after_a_restart_and_a_kill(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        url = server.url
        bus = await connect(url, "test", timeout_s=5)
        await bus.declare()
        assert await bus.append("remuda.inbox.a", b"1") == 1
        await server.restart()
        assert server.url == url
        await server.kill()
        assert not server.running
        await server.start()
        again = await connect(url, "again", timeout_s=5)
        message = await again.last_message("INBOX", "remuda.inbox.a")
        assert message is not None
        assert message.payload == b"1"
        pid = server.pid
        await bus.close()
        await again.close()
    assert gone(pid)


async def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        listening = [c.laddr for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert [(address.ip, address.port) for address in listening] == [("127.0.0.1", server.port)]


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=rf"port {port}.*address already in use"):
            await NatsServer(tmp_path, port).start()


async def test_one_server_per_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NatsServer(tmp_path):
        monkeypatch.setattr("remuda.limits.SERVER_READY_WITHIN_S", 0.2)
        with pytest.raises(ServerError, match="another nats-server uses this directory"):
            await NatsServer(tmp_path).start()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
async def test_it_dies_with_its_parent(tmp_path: Path, sign: signal.Signals) -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, str(tmp_path), stdout=PIPE)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.send_signal(sign)
    await asyncio.wait_for(parent.wait(), 5)
    assert until(lambda: gone(pid))
    # The directory is free again at once.
    async with NatsServer(tmp_path):
        pass


async def test_the_terminals_interrupt_does_not_reach_it(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_the_memory_limit_follows_the_machine_unless_it_is_set() -> None:
    assert memory.limit_of(1 * 1024**3) == 256 * 1024**2
    assert memory.limit_of(4 * 1024**3) == 512 * 1024**2
    assert memory.limit_of(256 * 1024**3) == 1024**3
    assert memory.with_limit({"A": "b"}).keys() == {"A", "GOMEMLIMIT"}
    assert memory.with_limit({"GOMEMLIMIT": "off"}) == {"GOMEMLIMIT": "off"}


async def test_the_server_gets_its_limits(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server:
        assert psutil.Process(server.pid).environ()["GOMEMLIMIT"].endswith("MiB")
        assert json.loads((tmp_path / "nats.conf").read_text())["jetstream"]["max_memory_store"] == 64 * 1024**2
