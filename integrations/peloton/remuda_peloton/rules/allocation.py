"""The allocation of a pool, by the kinds of tasks that hold it."""

from __future__ import annotations

import msgspec

from .resources import ZERO, Vector, add, subtract
from .task import Task


class Allocation(msgspec.Struct, frozen=True):
    total: Vector = ZERO
    preemptible: Vector = ZERO
    non_preemptible: Vector = ZERO
    controller: Vector = ZERO
    slack: Vector = ZERO
    non_slack: Vector = ZERO

    def plus(self, other: Allocation) -> Allocation:
        return Allocation(*(add(a, b) for a, b in zip(_vectors(self), _vectors(other), strict=True)))

    def minus(self, other: Allocation) -> Allocation:
        return Allocation(*(subtract(a, b) for a, b in zip(_vectors(self), _vectors(other), strict=True)))


def of_task(task: Task) -> Allocation:
    """The vectors in which one task counts."""
    amount = task.resource
    return Allocation(
        total=amount,
        preemptible=amount if task.preemptible else ZERO,
        non_preemptible=ZERO if task.preemptible else amount,
        controller=amount if task.controller else ZERO,
        slack=amount if task.revocable else ZERO,
        non_slack=ZERO if task.revocable else amount,
    )


def _vectors(one: Allocation) -> tuple[Vector, ...]:
    return one.total, one.preemptible, one.non_preemptible, one.controller, one.slack, one.non_slack
