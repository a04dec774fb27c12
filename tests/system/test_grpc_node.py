"""A client in Node that loads the specification's own text: the same as over NATS."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from tests.system.grpc_system import System, grpc_system
from tests.system.node_packages import installed_packages
from tests.system.test_grpc import proto_of_the_specification, run_over_nats


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


async def test_client_in_node_gets_the_same_as_over_nats(system: System, tmp_path: Path) -> None:
    proto = proto_of_the_specification(tmp_path)
    (tmp_path / "node_modules").symlink_to(installed_packages())
    script = shutil.copy(Path(__file__).with_name("grpc_rm.js"), tmp_path)
    argv = ("node", script, str(proto), f"127.0.0.1:{system.port}", "over-node", "100", "10000")
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        async with asyncio.timeout(60):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == await run_over_nats(system)
