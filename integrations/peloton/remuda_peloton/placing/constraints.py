"""Constraints on labels: of the host, and of the tasks on it.

A label constraint compares how many labels with this key and value there are (of a host: 0 or 1; of tasks: on how many
tasks) with its requirement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

HOSTNAME: Final = "hostname"
HOST_POOL: Final = "host_pool"
LESS, EQUAL, GREATER = "<", "=", ">"
ALL, ANY = "all", "any"

Label = tuple[str, str]
Count = Callable[[Label], int]


class LabelConstraint(msgspec.Struct, frozen=True):
    """`of_tasks`: of the tasks on the host, not of the host itself. `condition`: LESS, EQUAL, GREATER."""

    label: Label
    condition: str
    requirement: int
    of_tasks: bool = False


class Combined(msgspec.Struct, frozen=True):
    """`kind`: ALL or ANY of the constraints."""

    kind: str
    constraints: tuple[Constraint, ...]


Constraint = LabelConstraint | Combined
UNREADABLE: Final = Combined(ANY, ())  # which no host satisfies


def satisfied(constraint: Constraint, host_labels: Count, task_labels: Count) -> bool:
    if isinstance(constraint, Combined):
        each = (satisfied(one, host_labels, task_labels) for one in constraint.constraints)
        return all(each) if constraint.kind == ALL else any(each)
    count = (task_labels if constraint.of_tasks else host_labels)(constraint.label)
    if constraint.condition == LESS:
        return count < constraint.requirement
    return count > constraint.requirement if constraint.condition == GREATER else count == constraint.requirement


def of_group(constraint: Constraint) -> bool:
    """Whether all hosts with the same labels satisfy it, or none: it asks neither for a hostname nor for tasks."""
    if isinstance(constraint, Combined):
        return all(of_group(one) for one in constraint.constraints)
    return not constraint.of_tasks and constraint.label[0] != HOSTNAME


def needs_tasks(constraint: Constraint | None) -> bool:
    if isinstance(constraint, Combined):
        return any(needs_tasks(one) for one in constraint.constraints)
    return constraint is not None and constraint.of_tasks
