"""The whole system, again and again, each time with other disasters. `make sim` does it for longer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from .loop import Stuck, VirtualLoop
from .simulation import run

SEEDS = 20
TOGETHER = 10
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_nothing_is_lost_or_doubled(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        story = run(seed)
        said = "\n".join([*story.lines[-100:], *story.violations])
        assert not story.violations, f"{said}\nall of it: python -m tests.sim --seed {seed}"


@pytest.mark.parametrize(
    "options",
    [(), ("--tenants",), ("--configuration",), ("--kubernetes",), ("--peloton",)],
    ids=["default", "tenants", "configuration", "kubernetes", "peloton"],
)
def test_a_seed_tells_the_same_story_in_every_process(options: tuple[str, ...]) -> None:
    told = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.sim", *options, "--seed", "7"]
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
        told.add(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)
    assert len(told) == 1


def test_time_jumps_to_the_next_timer() -> None:
    async def sleep() -> float:
        await asyncio.gather(asyncio.sleep(3_600), asyncio.sleep(60))
        return asyncio.get_running_loop().time()

    loop = VirtualLoop(lambda task, context: None)
    assert loop.run_until_complete(sleep()) - 1_000 == pytest.approx(3_600)
    loop.clear()


def test_waiting_for_nothing_is_noticed() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop(lambda task, context: None)
    with pytest.raises(Stuck, match="wait"):
        loop.run_until_complete(wait())
    loop.clear()
