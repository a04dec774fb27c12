"""Which tasks of a pool above its entitlement are preempted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from .lifecycle import LAUNCHED, LAUNCHING, PLACED, PLACING, READY, RESERVED, RUNNING, STARTING
from .resources import ZERO, Vector, subtract
from .task import Task

# States whose tasks are preempted: by Peloton, and with `preempt_all_states`. In the order in which they are preempted:
# the least work is lost first. A task that is RESERVED has waited through all cycles of one that is PLACING.
STATES: Final = (READY, PLACING, RUNNING)
ALL_STATES: Final = (READY, PLACING, RESERVED, PLACED, LAUNCHING, LAUNCHED, STARTING, RUNNING)


class Candidate(Protocol):
    """`started_ms`: when the task entered RUNNING; 0: it has not."""

    task: Task
    state: str
    started_ms: int


C = TypeVar("C", bound=Candidate)


def victims(
    tasks: Iterable[C], non_slack: Vector, slack: Vector, fewest: bool = False, states: Sequence[str] = STATES
) -> list[C]:
    """The tasks to preempt, in order, to free `slack` from revocable tasks and `non_slack` from the others. `fewest`: a
    task is passed over if it frees nothing that is still to be freed; else if it frees nothing of what was at first."""
    ranked = sorted((one for one in tasks if one.task.preemptible and one.state in states), key=_rank)
    revocable = [one for one in ranked if one.task.revocable]
    others = [one for one in ranked if not one.task.revocable]
    return [*_free(revocable, slack, fewest), *_free(others, non_slack, fewest)]


def _rank(one: Candidate) -> tuple[int, int, int]:
    return ALL_STATES.index(one.state), one.task.priority, 0 if one.state == READY else -one.started_ms


def _free(ranked: list[C], wanted: Vector, fewest: bool) -> list[C]:
    chosen, left = [], subtract(wanted, ZERO)
    for one in ranked:
        if left == ZERO:
            break
        missing = left if fewest else wanted
        if any(has > 0 and lacks > 0 for has, lacks in zip(one.task.resource, missing, strict=True)):
            chosen.append(one)
            left = subtract(left, one.task.resource)
    return chosen
