"""Long days out of a seed (see storm): every step is checked, some compared with a plain reading of the semantics."""

from __future__ import annotations

import os
from functools import cache

import pytest

from remuda_core.evolve import BY_FACT
from remuda_core.facts import (
    BudgetPeriodBegan,
    DevicesAssigned,
    DomainAvoidanceEnded,
    DomainAvoided,
    NodeLeaving,
    PromiseChanged,
    QuotaLent,
    QuotaLoanEnded,
    WindowClosed,
    WindowOpened,
    WindowPlanned,
    WorkMeasured,
)
from tests.property.storm import storm

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEEDS = range(5_000) if LONG else range(140)
STEPS = 400 if LONG else 200
AT_ONCE = 20
# These days have no devices, no backfill, no nodes that leave, no topology, no budgets, no loans, and no windows: these
# have tests of their own beside this folder.
ELSEWHERE = {
    BudgetPeriodBegan, DevicesAssigned, DomainAvoidanceEnded, DomainAvoided, NodeLeaving, PromiseChanged, QuotaLent,
    QuotaLoanEnded, WindowClosed, WindowOpened, WindowPlanned, WorkMeasured,
}  # fmt: skip


@cache
def days(first: int) -> frozenset[type]:
    """The kinds of facts that happened."""
    worlds = [storm(seed, STEPS) for seed in SEEDS[first : first + AT_ONCE]]
    return frozenset(type(fact) for world in worlds for _, facts in world.log for fact in facts)


@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_days(first: int) -> None:
    days(first)


def test_reservations_stand_by_the_total_there_is_now() -> None:
    """A seed that once found that they stood by the one before."""
    storm(700_161, 600)


def test_everything_happens() -> None:
    """Or what these days show is less than it seems."""
    happened = frozenset.union(*map(days, range(0, len(SEEDS), AT_ONCE)))
    assert BY_FACT.keys() - happened == ELSEWHERE
