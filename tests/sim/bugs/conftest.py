"""Some of the bugs, others with each SEED: SAMPLE=3 SEED=$(git rev-parse HEAD)."""

from __future__ import annotations

import os
from random import Random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    number = int(os.environ.get("SAMPLE", "0"))
    if number:
        items[:] = Random(os.environ.get("SEED", "")).sample(items, min(number, len(items)))
