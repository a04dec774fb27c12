"""Every mutant fits the code as it is; that each is killed is what `make mutants` shows."""

from __future__ import annotations

import pytest

from .mutants import MUTANTS
from .mutate import Mutant
from .table import README, read, table


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_fits_the_code(mutant: Mutant) -> None:
    compile(mutant.source(), str(mutant.file), "exec")


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 60


def test_the_table_is_of_these_mutants() -> None:
    """`make mutants ARGS=--write` writes it."""
    fates = read()
    assert README.read_text() == table(MUTANTS, fates)
    assert list(fates) == [mutant.name for mutant in MUTANTS]


def test_somebody_notices_each() -> None:
    assert [name for name, fate in read().items() if not fate.by] == []
