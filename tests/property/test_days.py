"""Long days out of a seed (see storm): every step is checked, some compared with a plain reading of the semantics."""

from __future__ import annotations

import os

import pytest

from .storm import storm

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEEDS = range(5_000) if LONG else range(120)
STEPS = 400 if LONG else 200
# Seeds and lengths that once found something.
FOUND = {
    "a placeholder asked back before its gang resumed": (1330, 250),
    "a turn of a gang whose asks all wait for places": (2295, 250),
    "the same, seen by the index only": (2501, 250),
    "an ask whose refusals are forgotten while a node is kept for it": (6303, 400),
    "live and fresh index disagree about the same": (6929, 400),
    "a kept node is ready again for who has to be there": (6120, 400),
}


@pytest.mark.parametrize(("seed", "steps"), FOUND.values(), ids=FOUND.keys())
def test_what_was_found(seed: int, steps: int) -> None:
    storm(seed, steps)


@pytest.mark.parametrize("first", range(0, len(SEEDS), 20))
def test_days(first: int) -> None:
    for seed in SEEDS[first : first + 20]:
        storm(seed, STEPS)
