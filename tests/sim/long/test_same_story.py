"""A seed tells the same story by another process, which hashes differently, after other simulations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("simulation", "tenants", "configuring", "kubernetes.simulation", "peloton", "side_by_side")
TELL = """
import importlib, json, sys
runs = {kind: importlib.import_module(f"tests.sim.{kind}").run for kind in sys.argv[1:]}
stories = {kind: run(7) for kind, run in runs.items()}
assert not any(story.violations for story in stories.values()), stories
json.dump({kind: story.lines for kind, story in stories.items()}, sys.stdout)
"""


@pytest.fixture(scope="module")
def told() -> list[dict[str, list[str]]]:
    """The stories of a seed by two processes, which hash differently. In each, other simulations have run before."""
    return [json.loads(out) for out in map(tell, ("1", "2"), (KINDS, KINDS[::-1]))]


def tell(hash_seed: str, kinds: tuple[str, ...]) -> bytes:
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", TELL, *kinds]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_tells_the_same_story_in_every_process(told: list[dict[str, list[str]]], kind: str) -> None:
    one, other = told
    assert one[kind] and one[kind] == other[kind]
