"""Which placements of a request stand or fall together: those of a gang that the engine places as a whole.

Placements that hold tasks of several such gangs connect them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rules.placement import Placement
from ..settings import Settings
from ..state import State


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
    """With `whole_gangs`: which gang is to be placed in part; empty: none."""
    if not settings.whole_gangs:
        return ""
    named = {task_id for placement in placements for task_id, _ in placement.tasks}
    runs = [state.runs[task_id] for task_id in named]
    for number in {run.taken_in for run in runs if run.taken_in}:
        missing = sorted(state.taken[number].keys() - named)
        if missing:
            return f"the gang is placed as a whole, and {missing[0]} is not placed"
    return ""
