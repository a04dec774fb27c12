"""Peloton's resource manager and its clients, each time with other disasters. `.ci/run` does it for longer."""

from __future__ import annotations

from .peloton import run

SEEDS = 2


def test_no_task_is_lost_and_no_allocation_leaked() -> None:
    for seed in range(SEEDS):
        story = run(seed)
        said = "\n".join([*story.lines[-100:], *story.violations])
        assert not story.violations, f"{said}\nall of it: python -m tests.sim --peloton --seed {seed}"
