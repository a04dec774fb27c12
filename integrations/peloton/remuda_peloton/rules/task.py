"""A task as a job manager enqueues it, a gang of tasks, and the amounts that a pool holds for tasks."""

from __future__ import annotations

import msgspec

from ..limits import AMOUNT
from .resources import ZERO, Vector, add, subtract, total


class Task(msgspec.Struct, frozen=True):
    """A task as a job manager enqueues it. `id`: identity of the task; `mesos_id`: identity of this run. `labels`,
    `constraint`: encoded messages, passed on. `resource`: cores, devices, MB, MB. Counters and
    `ready_for_host_reservation`: as the caller has sent them."""

    id: str
    mesos_id: str
    resource: Vector = (0.0, 0.0, 0.0, 0.0)
    priority: int = 0
    preemptible: bool = False
    revocable: bool = False
    controller: bool = False
    type: int = 0
    name: str = ""
    job_id: str = ""
    hostname: str = ""
    desired_host: str = ""
    num_ports: int = 0
    min_instances: int = 0
    fd_limit: int = 0
    placement_strategy: int = 0
    labels: bytes = b""
    constraint: bytes = b""
    cycles: float = 0.0
    attempts: float = 0.0
    ready_for_host_reservation: bool = False


def problem_of(task: Task) -> str:
    """Why there can be no such task; empty: there can. An amount that is no number would spread to other pools; of an
    attempt without a number, nobody knows the time."""
    if not task.id or not task.mesos_id:
        field = "id" if not task.id else "taskId"
        return f"{field} of task {task.name[:64]!r} is empty, expected an ID"
    if not all(0 <= amount <= AMOUNT for amount in task.resource):
        return f"resource of task {task.id} is {task.resource}, expected amounts from 0 to {AMOUNT:g}"
    if not 0 <= task.attempts <= AMOUNT:
        return f"placementAttemptCount of task {task.id} is {task.attempts}, expected a number from 0 to {AMOUNT:g}"
    if not 0 <= task.cycles <= AMOUNT:
        return f"placementRetryCount of task {task.id} is {task.cycles}, expected a number from 0 to {AMOUNT:g}"
    return ""


class Traits(msgspec.Struct, frozen=True):
    """The inputs of admission. The first task of a gang decides whether it is preemptible or revocable."""

    resource: Vector
    preemptible: bool
    revocable: bool
    controller: bool


def traits(tasks: tuple[Task, ...]) -> Traits:
    """The traits of a gang. `tasks`: not empty. Only a gang of one task can be a controller."""
    first = tasks[0]
    resource = first.resource if len(tasks) == 1 else total(task.resource for task in tasks)
    return Traits(resource, first.preemptible, first.revocable, first.controller and len(tasks) == 1)


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
