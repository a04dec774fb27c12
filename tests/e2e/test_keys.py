"""A key of a resource manager is created and revoked while all services run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.stack import SECRETS, SERVERS, Stack

RM = "e2e-latecomer"

pytestmark = pytest.mark.timeout(200)


async def worked(stack: Stack, seed: Path | None = None) -> tuple[int, str]:
    """Run a few asks of that RM."""
    few = ("--nodes", "1", "--apps", "1", "--asks", "5", "--duration", "100ms")
    process = await stack.load(RM, *few, seed=seed)
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, said.decode()


async def reloaded(stack: Stack, times: int) -> None:
    for _ in range(times):
        for name in SERVERS:
            stack.container(name).kill(signal="HUP")
        await asyncio.sleep(1)


async def test_a_key_comes_and_goes_while_everything_runs(stack: Stack, tmp_path: Path) -> None:
    await asyncio.to_thread(stack.let_in, RM)
    await reloaded(stack, times=2)
    code, said = await worked(stack)
    assert code == 0 and "5 of 5 asks" in said, said
    copy = tmp_path / "seed"
    copy.write_bytes((SECRETS / "keys/rms" / f"{RM}.seed").read_bytes())
    await asyncio.to_thread(stack.shut_out, RM)
    await reloaded(stack, times=1)
    code, said = await worked(stack, copy)
    assert code == 1 and "no connection to a NATS server" in said, said
