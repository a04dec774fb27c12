"""A kind of difference.

A kind may explain single differences (`explains`), or name the step from which on the two answers have to part
(`taints_from`). Predicates are narrow: they look for the very thing in scenario, trace and answer.
"""

from __future__ import annotations

from inspect import getdoc

from ..case import Case
from ..compare import Difference
from ..reference_rules import Rule


class Kind:
    """The docstring names the difference in a short sentence, and gives the reason in a paragraph. `golden`: file and
    title of the golden scenario that shows remuda's behaviour."""

    golden: str
    # The reference's rule, to be played in the place of ours so that what follows a parting can be compared; several
    # where the reference has a choice.
    reference_rules: tuple[Rule, ...] = ()
    # While such a rule is played, the order of the allocations of one step means nothing.
    in_any_order = False
    # There is no such rule, or it does not lead all the way: what follows a parting is not compared.
    blind = False

    @property
    def name(self) -> str:
        return (getdoc(self) or "").partition("\n")[0]

    @property
    def why(self) -> str:
        return " ".join((getdoc(self) or "").partition("\n")[2].split())

    def explains(self, case: Case, difference: Difference) -> bool:
        return False

    def taints_from(self, case: Case) -> int | None:
        """The first step from which on the two answers may have to part."""
        return None

    def leaves_blind(self, case: Case) -> bool:
        """Whether what follows the parting may stay uncompared."""
        return self.blind
