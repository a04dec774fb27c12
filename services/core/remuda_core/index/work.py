"""Bound the work of a pass in a partition, in steps.

A step is a node group or a branch that a node search looks into, a leaf queue that is searched for the asks of a freed
node, and so on: each takes some microseconds. Longer work counts as several steps. The core has no clock, so a pass is
bounded by these counts; it ends between two placements, and the next pass continues there.
"""

from __future__ import annotations

from ..limits import STEPS_PER_PASS


class Work:
    """`left`: the steps that the pass may still take here. The work is over when none are left; the last placement may
    have taken more."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS_PER_PASS
