"""DequeueGangs, SetPlacements, GetPlacements: from READY over an engine to the job manager."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import msgspec

from ..commands import DequeueGangs, FailedPlacement, GetPlacements, Handed, SetPlacements, SharedEngine
from ..facts import Fact, GangDequeued, PlacementQueued, PlacementTaken, SharedPlaced, TaskDequeued
from ..limits import LIMIT_PER_CALL, PLACEMENTS
from ..rules.hosts import Placement
from ..rules.lifecycle import LAUNCHING, PLACED, PLACING, READY, RESERVED, count_attempt, due_ms, extra_s
from ..rules.task import Task
from ..settings import Settings
from ..state import Run, State
from .hosts import is_newer, why_no_room, why_not_by
from .requeue import after_failed_placement

Refused = tuple[tuple[Placement, str], ...]
OTHER_REFUSED: Final = "another placement of the gang was refused"


def dequeue_gangs(
    state: State, settings: Settings, command: DequeueGangs
) -> Generator[Fact, None, list[tuple[Handed, ...]]]:
    """The gangs that became READY first, of the type or of any. A gang without members is dropped."""
    answer: list[tuple[Handed, ...]] = []
    while len(answer) < min(command.limit, LIMIT_PER_CALL):
        number = _next_ready(state, command.type)
        if number is None:
            break
        members = [run for run in state.members(state.gangs[number]) if run.state == READY]
        yield GangDequeued(number, tuple(_dequeued(state, settings, run) for run in members))
        if members:
            answer.append(tuple(handed(run) for run in members))
    return answer


def set_placements(state: State, settings: Settings, command: SetPlacements) -> Generator[Fact, None, Refused]:
    """A gang that the request places as a whole is placed as a whole, or not."""
    asked: list[Placement] = []
    kept: list[Placement] = []
    named: set[tuple[str, str]] = set()
    for placement in command.placements:
        tasks = tuple(
            pair for pair in dict.fromkeys(placement.tasks) if pair not in named and _may_be_placed(state, pair)
        )
        named.update(tasks)
        if tasks:
            asked.append(placement)
            kept.append(msgspec.structs.replace(placement, tasks=tasks))
    reasons: dict[int, str] = {}
    for places in connected(state, settings, kept):
        together = [kept[place] for place in places]
        problems = _problems(state, settings, together, command.by)
        if not any(problems):
            for placement in together:
                yield PlacementQueued(state.last_number + 1, placement, due_ms(state.now_ms, PLACED, settings))
        else:
            reasons.update(zip(places, (one or OTHER_REFUSED for one in problems), strict=True))
    if command.by is not None and is_newer(state, command.by):
        yield SharedPlaced(command.by.name, command.by.number)
    for failed in command.failed:
        yield from _failed(state, settings, failed)
    return tuple((asked[place], reasons[place]) for place in sorted(reasons))


def get_placements(state: State, settings: Settings, command: GetPlacements) -> Generator[Fact, None, list[Placement]]:
    """Placements in the order of arrival, with the tasks that are still to be launched. Those without are dropped."""
    answer: list[Placement] = []
    while state.placements and len(answer) < min(command.limit, LIMIT_PER_CALL):
        number, placement = next(iter(state.placements.items()))
        tasks = tuple(pair for pair in placement.tasks if _is_placed(state, pair, number))
        yield PlacementTaken(number, due_ms(state.now_ms, LAUNCHING, settings))
        if tasks:
            answer.append(msgspec.structs.replace(placement, tasks=tasks))
    return answer


def handed(run: Run) -> Handed:
    return Handed(
        run.task, run.hostname, run.timeout_s, run.attempts, run.cycles, run.ready_for_host_reservation
    )  # fmt: skip


def _next_ready(state: State, task_type: int) -> int | None:
    """The oldest gang of the type; 0: of any type."""
    if task_type:
        return next(iter(state.ready.get(task_type, ())), None)
    return min((next(iter(queue)) for queue in state.ready.values()), default=None)


def _dequeued(state: State, settings: Settings, run: Run) -> TaskDequeued:
    task, attempts, cycles = run.task, run.attempts, run.cycles
    if run.ready_for_host_reservation:
        at_ms = due_ms(state.now_ms, RESERVED, settings)
        to, timeout_s = RESERVED, settings.reserving_timeout_s
    else:
        extra = extra_s(attempts, settings)
        at_ms = due_ms(state.now_ms, PLACING, settings, extra)
        to, timeout_s = PLACING, settings.placing_timeout_s + extra
        if settings.enable_placement_backoff:
            attempts, cycles = count_attempt(attempts, cycles, settings)
    return TaskDequeued(task.id, task.mesos_id, to, at_ms, timeout_s, attempts, cycles)


def _may_be_placed(state: State, pair: tuple[str, str]) -> bool:
    run = state.run_of(*pair)
    return run is not None and run.state in (PLACING, RESERVED)


def _problems(state: State, settings: Settings, together: Sequence[Placement], by: SharedEngine | None) -> list[str]:
    """Why placements that stand or fall together cannot be made, one by one; empty: this one can."""
    if why := why_in_part(state, settings, together):
        return [why] * len(together)
    if len(state.placements) + len(together) > PLACEMENTS:
        return [f"{PLACEMENTS} placements wait to be launched, try again later"] * len(together)
    tasks: dict[str, list[Task]] = {}
    ports: dict[str, list[int]] = {}
    problems: list[str] = []
    for placement in together:
        hostname = placement.hostname
        if not hostname:
            problems.append("hostname is empty, expected the name of the host")
            continue
        tasks.setdefault(hostname, []).extend(state.runs[task_id].task for task_id, _ in placement.tasks)
        before = ports.setdefault(hostname, [])
        before.extend(placement.ports)
        why = why_not_by(state, hostname, by) or why_no_room(state, hostname, tasks[hostname], before)
        problems.append(why)
    return problems


def _is_placed(state: State, pair: tuple[str, str], number: int) -> bool:
    run = state.run_of(*pair)
    return run is not None and run.state == PLACED and run.placement == number


def _failed(state: State, settings: Settings, failed: FailedPlacement) -> Generator[Fact, None, None]:
    """Only tasks that are still PLACING go back; the others have gone on meanwhile."""
    for task_id, run_id in failed.tasks:
        run = state.runs.get(task_id)
        if run is None or run.state != PLACING or (run_id and run.task.mesos_id != run_id):
            continue
        yield after_failed_placement(state, settings, run, failed.reason or "placement failed")


def connected(state: State, settings: Settings, placements: Sequence[Placement]) -> list[list[int]]:
    """The places of the placements in the request, in groups. Without `whole_gangs`, a gang of which the request
    names only a part connects nothing: its engine places the tasks one by one."""
    named: dict[int, dict[str, int]] = {}  # of each gang the tasks, and their placements
    for place, placement in enumerate(placements):
        for task_id, _ in placement.tasks:
            named.setdefault(state.runs[task_id].taken_in, {})[task_id] = place
    group_of = list(range(len(placements)))

    def first(place: int) -> int:
        while group_of[place] != place:
            group_of[place] = place = group_of[group_of[place]]
        return place

    for number, tasks in named.items():
        if number and (settings.whole_gangs or len(tasks) == len(state.taken[number])):
            one, *others = map(first, tasks.values())
            for other in others:
                group_of[first(other)] = first(one)
    groups: dict[int, list[int]] = {}
    for place in range(len(placements)):
        groups.setdefault(first(place), []).append(place)
    return list(groups.values())


def why_in_part(state: State, settings: Settings, placements: Sequence[Placement]) -> str:
    """The reason why the placements are refused with `whole_gangs`: they place a gang in part; empty: they do not."""
    if not settings.whole_gangs:
        return ""
    named = {task_id for placement in placements for task_id, _ in placement.tasks}
    runs = [state.runs[task_id] for task_id in named]
    for number in {run.taken_in for run in runs if run.taken_in}:
        missing = sorted(state.taken[number].keys() - named)
        if missing:
            return f"the gang is placed as a whole, and {missing[0]} is not placed"
    return ""
