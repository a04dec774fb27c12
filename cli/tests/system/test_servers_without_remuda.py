"""Commands with a NATS server that has no streams, or no JetStream."""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence
from pathlib import Path

from cli.tests.running import finished, finished_each
from cli.tests.test_commands import ASKS_A_SYSTEM
from cli.tests.test_mistakes import NOWHERE
from remuda.embedded import NatsServer, free_port
from remuda.embedded.nats_server import _binary
from tests.patience import PATIENCE


async def _all_say_why(commands: Sequence[Sequence[str]], url: str) -> None:
    for arguments, (code, said) in zip(
        commands, await finished_each([*arguments, "--nats", url] for arguments in commands), strict=True
    ):
        assert code == 1 and "Traceback" not in said and "remuda: " in said, (arguments, said)


async def test_a_server_without_streams(server: NatsServer) -> None:
    # All but `load`, which waits for the services.
    await _all_say_why([arguments for arguments in ASKS_A_SYSTEM if arguments[0] != "load"], server.url)


async def test_a_server_without_jetstream(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    plain = await asyncio.create_subprocess_exec(_binary(), "-a", "127.0.0.1", "-p", str(port), stderr=DEVNULL)
    try:
        commands = [arguments for arguments in ASKS_A_SYSTEM if arguments[0] != "load"]
        await _all_say_why([*commands, ["restore", "x"], ["backup", str(tmp_path / "new")]], f"nats://127.0.0.1:{port}")
    finally:
        plain.kill()
        await plain.wait()


async def test_no_server_is_said_within_a_second() -> None:
    took = []
    for command in (["queues", "rm"], ["status"], ["nodes"]):
        begun = time.monotonic()
        code, said = await finished(*command, "--nats", NOWHERE)
        took.append(time.monotonic() - begun)
        assert code == 1 and f"no NATS server answers at {NOWHERE}: Connection refused. `remuda up` starts" in said
    assert min(took) < 1.0 * PATIENCE, took
