"""Mutants that the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim import configuring, peloton, side_by_side, tenants
from tests.sim.kubernetes import simulation as kubernetes
from tests.sim.kubernetes.mutants import DEVICE_MUTANTS, VOLUME_MUTANTS
from tests.sim.mutants import CONFIGURATION_MUTANTS, KUBERNETES_MUTANTS, MUTANTS, TENANTS_MUTANTS, Mutant
from tests.sim.peloton_mutants import PELOTON_MUTANTS
from tests.sim.question_mutants import QUESTION_MUTANTS
from tests.sim.side_by_side_mutants import SIDE_BY_SIDE_MUTANTS
from tests.sim.simulation import run
from tests.sim.story import Story

# The bug that takes most seeds takes five minutes on a quiet machine, and twice as long beside other work.
pytestmark = pytest.mark.timeout(1800)

WITHIN_SEEDS = 200
WITHIN_TENANTS_SEEDS = 40
WITHIN_KUBERNETES_SEEDS = 100
# Of bugs that few seeds find: played before the others.
RARE_KUBERNETES_SEEDS = {"claims_of_earlier_pods_are_used": (168,)}
SEEDS_WITH_DEVICES = (112, 61, 93)
WITHIN_PELOTON_SEEDS = 30
WITHIN_SIDE_BY_SIDE_SEEDS = 20


def check_found(mutant: Mutant, run: Callable[[int], Story], seeds: int) -> None:
    assert any(run(seed).violations for seed in range(seeds)), f"{mutant.__name__} was not found in {seeds} seeds"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, run, WITHIN_SEEDS)


@pytest.mark.parametrize("mutant", QUESTION_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_answers_to_questions_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, run, WITHIN_SEEDS)


@pytest.mark.parametrize("mutant", TENANTS_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_that_harms_other_rms_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, tenants.run, WITHIN_TENANTS_SEEDS)


@pytest.mark.parametrize("mutant", CONFIGURATION_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_configuration_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, configuring.run, WITHIN_SEEDS)


@pytest.mark.parametrize("mutant", [*KUBERNETES_MUTANTS, *VOLUME_MUTANTS], ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_kubernetes_front_end_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    if not any(kubernetes.run(seed).violations for seed in RARE_KUBERNETES_SEEDS.get(mutant.__name__, ())):
        check_found(mutant, kubernetes.run, WITHIN_KUBERNETES_SEEDS)


@pytest.mark.parametrize("mutant", DEVICE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_with_devices_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(kubernetes.run(seed).violations for seed in SEEDS_WITH_DEVICES), f"{mutant.__name__} was not found"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", PELOTON_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_pelotons_resource_manager_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, peloton.run, WITHIN_PELOTON_SEEDS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", SIDE_BY_SIDE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_what_is_shared_with_peloton_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    check_found(mutant, side_by_side.run, WITHIN_SIDE_BY_SIDE_SEEDS)
