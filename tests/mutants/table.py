"""The table of mutants in Markdown: the rule that each breaks, and the test that kills it where tests have run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .mutants import MUTANTS
from .mutate import Mutant

GOLDEN, LAWS = "golden", "law"
UNBROKEN: Final = "unbroken"


class Fate(NamedTuple):
    """The kind and the title of the test that failed; both are empty when no test failed."""

    by: str
    test: str

    def __str__(self) -> str:
        return f"{self.by}: {self.test}" if self.by else "SURVIVED"


def named(name: str) -> Mutant | None:
    """The mutant of that name; None for the name of the unbroken code."""
    if name == UNBROKEN:
        return None
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    return mutant


def table(mutants: Iterable[Mutant], fates: Mapping[str, Fate]) -> str:
    """One row per mutant. `fates` is empty if no tests have run; otherwise it selects the rows."""
    heads = ["mutant", "the rule that is broken", *(["the test that kills it"] if fates else [])]
    rows = [heads, ["---"] * len(heads)]
    for each in mutants:
        if not fates:
            rows.append([f"`{each.name}`", each.rule])
        elif each.name in fates:
            rows.append([f"`{each.name}`", each.rule, str(fates[each.name])])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
