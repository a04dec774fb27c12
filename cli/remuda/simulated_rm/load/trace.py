"""Plans a replay: arrivals and departures of pods in the order of the trace, and which application a pod belongs to.

Pure. Knows nothing of what becomes of a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .openb import Pod

DAY_S = 86_400


class Kind(IntEnum):
    """The kinds of events, in their order within a second: room is made before it is taken, and nothing leaves
    before it came.
    """

    DEPARTURE = 0
    ARRIVAL = 1
    DEPARTURE_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Step:
    """Neighbouring events of one kind that may be sent together. `time`: the time of the last of them, in seconds of
    the trace.
    """

    time: float
    arrival: bool
    pods: tuple[Pod, ...]


def steps(pods: Iterable[Pod], together_s: float = float("inf")) -> list[Step]:
    """Returns all events in order. Neighbours of one kind, at most `together_s` seconds apart, form one step."""
    result: list[Step] = []
    run: list[tuple[float, Kind, Pod]] = []
    for event in _events(pods):
        if run and ((event[1] is Kind.ARRIVAL) != (run[-1][1] is Kind.ARRIVAL) or event[0] - run[0][0] > together_s):
            result.append(_step(run))
            run = []
        run.append(event)
    if run:
        result.append(_step(run))
    return result


def _events(pods: Iterable[Pod]) -> Sequence[tuple[float, Kind, Pod]]:
    events = []
    for pod in pods:
        events.append((pod.created, Kind.ARRIVAL, pod))
        if pod.deleted is not None:
            kind = Kind.DEPARTURE if pod.deleted > pod.created else Kind.DEPARTURE_AT_ONCE
            events.append((pod.deleted, kind, pod))
    return sorted(events, key=lambda event: (event[0], event[1], event[2].name))


def _step(run: Sequence[tuple[float, Kind, Pod]]) -> Step:
    return Step(run[-1][0], run[0][1] is Kind.ARRIVAL, tuple(pod for _, _, pod in run))


def group(pod: Pod) -> str:
    """Returns the application of a pod: all of one quality of service that arrived on one day."""
    return f"{pod.qos.lower()}-day{int(pod.created // DAY_S):03}"


def qos_of(application: str) -> str:
    """Returns the quality of service of the pods of a group, in lower case."""
    return application.rpartition("-day")[0]


def group_sizes(pods: Iterable[Pod]) -> Counter[str]:
    return Counter(map(group, pods))
