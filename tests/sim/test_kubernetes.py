"""Pods on a simulated Kubernetes cluster, whose front ends and API server are killed at any step."""

from __future__ import annotations

import pytest

from .kubernetes.simulation import NEWEST, OLDEST, run

# Seeds, with the version of the API server; None: that of the seed. The second one has devices, and the last one holds
# pods by gates.
SEEDS = ((2, None), (93, None), (0, OLDEST), (15, NEWEST))


@pytest.mark.parametrize(("seed", "minor"), SEEDS)
def test_each_pod_that_fits_is_bound_once(seed: int, minor: int | None) -> None:
    story = run(seed, minor)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --kubernetes --seed {seed}"
    assert any(" is killed" in line for line in story.lines)
    if seed == 93:
        assert any("devices: True" in line for line in story.lines)
    if minor == NEWEST:
        assert any("hold='gates'" in line and f"version 1.{minor}" in line for line in story.lines)
