"""What the simulation must not miss."""

from __future__ import annotations

import pytest

from .mutants import MUTANTS, Mutant
from .simulation import run

WITHIN_SEEDS = 200


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_SEEDS) if run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_SEEDS} seeds"
