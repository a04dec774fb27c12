"""Pods on a simulated Kubernetes cluster, whose front ends and API server are killed at any step."""

from __future__ import annotations

from .kubernetes.simulation import run

SEEDS = 2


def test_each_pod_that_fits_is_bound_once() -> None:
    kills = 0
    for seed in range(SEEDS):
        story = run(seed)
        said = "\n".join([*story.lines[-100:], *story.violations])
        assert not story.violations, f"{said}\nall of it: python -m tests.sim --kubernetes --seed {seed}"
        kills += sum(" is killed" in line for line in story.lines)
    assert kills
