"""The kinds of difference from the reference that are meant: each with its reason, and a predicate that recognises it
from the data alone. docs/differences.md is written from this table.

A kind may explain single differences (`explains`), or say from which step on the two answers have to part
(`taints_from`). Predicates are narrow: they look for the very thing in scenario, trace and answer.
"""

from __future__ import annotations

from typing import Final

from .case import Case
from .compare import Difference


class Kind:
    """`name`: a short sentence; `why`: a paragraph, why ours is better."""

    name: str
    why: str

    def explains(self, case: Case, difference: Difference) -> bool:
        return False

    def taints_from(self, case: Case) -> int | None:
        """The first step from which on the rest cannot be compared any more."""
        return None


KINDS: Final[tuple[Kind, ...]] = ()
