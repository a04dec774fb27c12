"""The resource manager of the SDK's README, word for word, against the whole scheduler."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_rmproxy.shell import main as rmproxy_main
from tests.system.running import running, serves, until

README = Path(__file__).parents[2] / "sdk" / "README.md"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize(("number", "output"), [(1, "start task-1 on n1\n"), (2, "")])
async def test_programs_without_a_server(tmp_path: Path, number: int, output: str) -> None:
    program = tmp_path / "rm.py"
    program.write_text(programs()[number])
    rm = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(30):
        written, _ = await rm.communicate()
    assert (rm.returncode, written.decode()) == (0, output)


async def test_a_resource_manager_in_20_lines(tmp_path: Path) -> None:
    program = tmp_path / "rm.py"
    program.write_text(programs()[0])
    async with (
        NatsServer(tmp_path / "nats") as server,
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "rmproxy", rmproxy_main),
        running(server.url, "core", core_main, CoreSettings),
    ):
        await until(lambda: serves(server.url))
        rm = await asyncio.create_subprocess_exec(
            sys.executable, str(program), server.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        async with asyncio.timeout(30):
            output, _ = await rm.communicate()
    lines = sorted(line for line in output.decode().splitlines() if line.startswith("start"))
    assert rm.returncode == 0, output.decode()
    assert [line.rpartition(" on ")[0] for line in lines] == [f"start task-{number}" for number in range(10)]
    assert {line.rpartition(" ")[2] for line in lines} <= {"n1", "n2"}
