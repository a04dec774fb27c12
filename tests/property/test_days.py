"""Long days out of a seed (see storm): every step is checked, some compared with a plain reading of the semantics."""

from __future__ import annotations

import os

import pytest

from .storm import storm

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEEDS = range(5_000) if LONG else range(120)
STEPS = 400 if LONG else 200


@pytest.mark.parametrize("first", range(0, len(SEEDS), 20))
def test_days(first: int) -> None:
    for seed in SEEDS[first : first + 20]:
        storm(seed, STEPS)
