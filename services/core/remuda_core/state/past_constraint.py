"""Constraints that are over."""

from __future__ import annotations

from typing import NamedTuple


class PastConstraint(NamedTuple):
    """A constraint (Constraint.key) that was in the way of an ask from `since_ms` until it was reported to be over."""

    key: tuple[str, str, str]
    since_ms: int
    ended_ms: int
