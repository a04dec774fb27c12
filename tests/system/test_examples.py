"""The programs of examples/: each registers, reports, confirms a preemption, and continues after a restart."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from tests.system.grpc_system import System, grpc_system
from tests.system.node_packages import JAVASCRIPT, installed_packages

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


@pytest.fixture(scope="session")
def node_modules() -> Path:
    return installed_packages()


async def output_of(command: Sequence[str | Path], environment: Mapping[str, str], code: int = 0) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == code, output.decode()
    return output.decode().splitlines()


async def check(program: Sequence[str | Path], url: str, state: Path, **environment: str) -> None:
    """Run the program without arguments, and then twice."""
    [usage] = await output_of(program, environment, code=1)
    assert usage.startswith("usage: ") and usage.endswith(" STATE_FILE")
    first = await output_of((*program, url, state), environment)
    assert first[:4] == [f"start batch-{number} on node-1" for number in range(1, 5)]
    assert first[4].startswith("stop batch-") and first[4].endswith(": PREEMPTED_BY_SCHEDULER")
    assert first[5] == "start urgent-1 on node-1"
    second = await output_of((*program, url, state), environment)
    # The first run asks for the end of urgent-1, and may see it before it is over itself.
    assert first[6:] + second == ["stop urgent-1: STOPPED_BY_RM", "start late-1 on node-1"]


@pytest.mark.parametrize("name", ["with_sdk", "with_nats"])
async def test_python_over_nats(system: System, tmp_path: Path, name: str) -> None:
    await check((sys.executable, EXAMPLES / "python" / f"{name}.py"), system.url, tmp_path / "state")


async def test_python_over_grpc(system: System, tmp_path: Path) -> None:
    program = (sys.executable, EXAMPLES / "python" / "with_grpc.py")
    await check(program, f"grpc://127.0.0.1:{system.port}", tmp_path / "state")


@pytest.mark.parametrize("name", ["with_nats", "with_grpc"])
async def test_javascript(system: System, tmp_path: Path, node_modules: Path, name: str) -> None:
    url = system.url if name == "with_nats" else f"grpc://127.0.0.1:{system.port}"
    # Packages are looked up beside the program.
    folder = tmp_path / "examples" / "javascript"
    shutil.copytree(JAVASCRIPT, folder)
    shutil.copy(EXAMPLES / "queues.yaml", folder.parent)
    (folder / "node_modules").symlink_to(node_modules)
    proto = str(ROOT / "proto" / "si" / "v1" / "si.proto")
    await check(("node", folder / f"{name}.js"), url, tmp_path / "state", SI_PROTO=proto)


async def test_shell(system: System, tmp_path: Path) -> None:
    server = system.url.removeprefix("nats://")
    protoc = f"{sys.executable} -m grpc_tools.protoc"
    await check((EXAMPLES / "shell" / "with_nats.sh",), server, tmp_path / "state", PROTOC=protoc)
