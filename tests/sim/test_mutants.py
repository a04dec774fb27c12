"""Mutants that the simulation has to find."""

from __future__ import annotations

import pytest

from . import configuring, peloton, side_by_side, tenants
from .kubernetes import simulation as kubernetes
from .kubernetes.mutants import VOLUME_MUTANTS
from .mutants import CONFIGURATION_MUTANTS, KUBERNETES_MUTANTS, MUTANTS, TENANTS_MUTANTS, Mutant
from .peloton_mutants import PELOTON_MUTANTS
from .side_by_side_mutants import SIDE_BY_SIDE_MUTANTS
from .simulation import run

WITHIN_SEEDS = 200
WITHIN_TENANTS_SEEDS = 40
WITHIN_KUBERNETES_SEEDS = 40
WITHIN_PELOTON_SEEDS = 30
WITHIN_SIDE_BY_SIDE_SEEDS = 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_SEEDS) if run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_SEEDS} seeds"


@pytest.mark.parametrize("mutant", TENANTS_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_that_harms_other_rms_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_TENANTS_SEEDS) if tenants.run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_TENANTS_SEEDS} seeds"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", CONFIGURATION_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_configuration_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_SEEDS) if configuring.run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_SEEDS} seeds"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", [*KUBERNETES_MUTANTS, *VOLUME_MUTANTS], ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_kubernetes_front_end_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_KUBERNETES_SEEDS) if kubernetes.run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_KUBERNETES_SEEDS} seeds"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", PELOTON_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_pelotons_resource_manager_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_PELOTON_SEEDS) if peloton.run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_PELOTON_SEEDS} seeds"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", SIDE_BY_SIDE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_what_is_shared_with_peloton_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    found = next((seed for seed in range(WITHIN_SIDE_BY_SIDE_SEEDS) if side_by_side.run(seed).violations), None)
    assert found is not None, f"{mutant.__name__} was not found in {WITHIN_SIDE_BY_SIDE_SEEDS} seeds"
