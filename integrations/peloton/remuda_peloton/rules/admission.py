"""The admission of gangs: whether a gang is admitted, and if not, where it waits: three rules and four queues."""

from __future__ import annotations

from typing import Final

import msgspec

from .resources import Vector, add, exceeding, fits, subtract
from .task import Allocation, Traits

PENDING_QUEUE: Final = "pending"
NON_PREEMPTIBLE_QUEUE: Final = "non-preemptible"
CONTROLLER_QUEUE: Final = "controller"
REVOCABLE_QUEUE: Final = "revocable"
# In the order in which a pass looks at them.
QUEUES: Final = (NON_PREEMPTIBLE_QUEUE, CONTROLLER_QUEUE, REVOCABLE_QUEUE, PENDING_QUEUE)

ADMITTED: Final = "admitted"
FULL: Final = "full"
INVALID: Final = "invalid"
# The queue of a gang that steps aside, and what an attempt to admit it is called then.
SKIPPED: Final = {
    NON_PREEMPTIBLE_QUEUE: "skip_non_preemptible",
    CONTROLLER_QUEUE: "skip_controller",
    REVOCABLE_QUEUE: "skip_revocable",
}


class Room(msgspec.Struct, frozen=True):
    """The bounds of a pool. `controller_limit`: None: no limit."""

    allocation: Allocation
    non_slack: Vector
    slack: Vector
    reservation: Vector
    controller_limit: Vector | None


class Obstacle(msgspec.Struct, frozen=True):
    """Why a gang is not admitted. `rule`: entitlement, slack_entitlement, controller_limit, or reservation.
    `kinds`: in which its bound is exceeded. `wanted`: what would be held with the gang, of at most `bound`."""

    rule: str
    kinds: tuple[str, ...]
    wanted: Vector
    bound: Vector


def obstacle(gang: Traits, room: Room, preemption_enabled: bool) -> Obstacle | None:
    """The first rule that does not admit the gang; None: it is admitted."""
    held = room.allocation
    if gang.revocable:
        return _above("slack_entitlement", held.slack, gang.resource, room.slack)
    problem = _above("entitlement", subtract(held.total, held.slack), gang.resource, room.non_slack)
    if problem is None and gang.controller and room.controller_limit is not None:
        problem = _above("controller_limit", held.controller, gang.resource, room.controller_limit)
    if problem is None and preemption_enabled and not gang.preemptible:
        problem = _above("reservation", held.non_preemptible, gang.resource, room.reservation)
    return problem


def queue_aside(gang: Traits, queue: str, preemption_enabled: bool) -> str:
    """The queue in which a gang waits that is not admitted. `queue`: where it waits now, and stays if this is the
    answer; then it holds up the gangs behind it."""
    if queue != PENDING_QUEUE:
        return queue
    if preemption_enabled and not gang.preemptible:
        return NON_PREEMPTIBLE_QUEUE
    if gang.controller:
        return CONTROLLER_QUEUE
    return REVOCABLE_QUEUE if gang.revocable else queue


def _above(rule: str, held: Vector, more: Vector, bound: Vector) -> Obstacle | None:
    wanted = add(held, more)
    return None if fits(wanted, bound) else Obstacle(rule, exceeding(wanted, bound), wanted, bound)
