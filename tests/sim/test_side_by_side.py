"""An RM and Peloton on the same nodes, each time with other disasters. `.ci/run` does it for longer."""

from __future__ import annotations

from .side_by_side import run

SEEDS = 1


def test_each_run_has_an_allocation_and_each_allocation_a_run() -> None:
    for seed in range(SEEDS):
        story = run(seed)
        said = "\n".join([*story.lines[-100:], *story.violations])
        assert not story.violations, f"{said}\nall of it: python -m tests.sim --side-by-side --seed {seed}"
