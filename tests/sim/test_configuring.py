"""Changes of the configuration, with kills of the configuration service at every step. `.ci/run` tries hundreds of
seeds."""

from __future__ import annotations

import pytest

from .configuring import run

SEEDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_version_is_in_force_as_a_whole_or_not_at_all(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --configuration --seed {seed}"
