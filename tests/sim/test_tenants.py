"""Five RMs, one of them hostile. `.ci/run` tries hundreds of seeds."""

from __future__ import annotations

import pytest

from .tenants import run

SEEDS = 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_other_rms_do_not_notice_a_hostile_one(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --tenants --seed {seed}"
