"""README.md: the mutants, and the test that kills each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from .mutants import MUTANTS
from .mutate import Mutant

README: Final = Path(__file__).parent / "README.md"
GOLDEN, LAWS = "golden", "law"
UNBROKEN: Final = "unbroken"
HEAD: Final = """\
# Mutants

A mutant is a rule of scheduling that is broken on purpose: `mutants.py` has the text of the code and its replacement.
`make mutants` applies one mutant after the other in memory, and runs tests until one fails: first the golden scenarios,
those of the rule's section of [the semantics](../../docs/semantics.md) before the others, then the laws. A mutant with
which no test fails survives: the rule is not tested. A new rule comes with its mutants, and a golden scenario has to
kill each.

```
make mutants                       all of them; SAMPLE=12 some, ONLY=fence those with this in their name
make mutants ARGS=--write          and writes this table
make mutants ARGS='--tell NAME'    what the scenario that kills it shows
```

| mutant | the rule that is broken | the test that kills it |
|---|---|---|
"""


class Fate(NamedTuple):
    """The test that failed; both empty: none did."""

    by: str
    test: str

    def __str__(self) -> str:
        return f"{self.by}: {self.test}" if self.by else "SURVIVED"


def named(name: str) -> Mutant | None:
    if name == UNBROKEN:
        return None
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    return mutant


def table(mutants: Iterable[Mutant], fates: Mapping[str, Fate]) -> str:
    lines = [f"| `{each.name}` | {each.rule} | {fates[each.name]} |\n" for each in mutants if each.name in fates]
    return HEAD + "".join(lines)


def read() -> dict[str, Fate]:
    """The content of the table."""
    text = README.read_text() if README.exists() else ""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (?:(golden|law): (.*)|SURVIVED) \|$", text, flags=re.MULTILINE)
    return {name: Fate(by, test) for name, by, test in rows}
