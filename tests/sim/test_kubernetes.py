"""Pods on a simulated Kubernetes cluster, whose front ends and API server are killed at any step."""

from __future__ import annotations

import pytest

from .kubernetes.simulation import run


@pytest.mark.parametrize("seed", range(3))
def test_each_pod_that_fits_is_bound_once(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --kubernetes --seed {seed}"
    assert any(" is killed" in line for line in story.lines)
