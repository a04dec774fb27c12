"""Bound the work of a pass in a partition, in steps.

A step is a node group or a branch that a node search looks into, a leaf queue that is searched for the asks of a freed
node, and so on: each takes some microseconds. Longer work counts as several steps. The core has no clock, so a pass is
bounded by these counts; it ends between two placements, and the next pass continues there.
"""

from __future__ import annotations

from ..limits import STEPS_PER_PASS


class Work:
    """`left`: the steps that the pass may still take here. The work is over when none are left; the last placement may
    have taken more. `found`: whether the pass has found an ask that may be next."""

    __slots__ = ("_patience", "found", "left")

    def __init__(self) -> None:
        self.left = STEPS_PER_PASS
        self.found = True
        self._patience = 1

    def begin_pass(self, steps: int) -> None:
        """After a pass whose work was over before it had found anything, the next may do twice as much: it begins its
        search anew, and would not come further."""
        self._patience = 2 * self._patience if self.left <= 0 and not self.found else 1
        self.left, self.found = steps * self._patience, False
