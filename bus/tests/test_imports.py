"""A process that starts imports no module that it may not need."""

from __future__ import annotations

import subprocess
import sys

from nats.aio import transport

LOADED = """
import sys
import remuda.main
{then}
print(*(name for name in sys.modules if name.startswith("aiohttp")))
"""


def loaded(then: str = "") -> list[str]:
    command = (sys.executable, "-c", LOADED.format(then=then))
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_commands_do_not_load_what_only_websockets_need() -> None:
    assert loaded() == []


def test_it_is_loaded_when_it_is_used() -> None:
    assert "aiohttp.web" in loaded("from aiohttp import web")
    assert "aiohttp.client" in loaded("from nats.aio import transport; transport.aiohttp.ClientSession")


async def test_a_connection_by_websocket_has_its_client() -> None:
    socket = transport.WebSocketTransport()
    assert type(socket._client).__module__ == "aiohttp.client"
    await socket._client.close()
