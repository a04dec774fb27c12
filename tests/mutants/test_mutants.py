"""Every mutant fits the code as it is; that each is killed is what `make mutants` shows."""

from __future__ import annotations

import pytest

from .mutants import MUTANTS
from .mutate import Mutant
from .table import GOLDEN, Fate, table


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_fits_the_code(mutant: Mutant) -> None:
    compile(mutant.source(), str(mutant.file), "exec")


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 60


def test_the_table_has_each_rule_and_the_test_that_kills_it() -> None:
    first, second, *_ = MUTANTS
    fates = {first.name: Fate(GOLDEN, "a scenario"), second.name: Fate("", "")}
    assert table(MUTANTS, fates).splitlines()[2:] == [
        f"| `{first.name}` | {first.rule} | golden: a scenario |",
        f"| `{second.name}` | {second.rule} | SURVIVED |",
    ]
    assert len(table(MUTANTS, {}).splitlines()) == 2 + len(MUTANTS)
