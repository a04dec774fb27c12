"""RMs over gRPC, whose front ends are killed at any step."""

from __future__ import annotations

import pytest

from .front_ends import run

SEEDS = 6


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_doubled_by_front_ends(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --front-ends --seed {seed}"
    assert any(" is killed" in line for line in story.lines) or seed, "the first seed kills something"
