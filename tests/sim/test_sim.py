"""The whole system, again and again, each time with other disasters. `make sim` and `.ci/run` do it for longer."""

from __future__ import annotations

import asyncio

import pytest

from .loop import Stuck, VirtualLoop
from .simulation import run

SEEDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --seed {seed}"


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
