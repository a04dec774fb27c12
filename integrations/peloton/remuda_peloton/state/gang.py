"""Gangs that wait, and the queues in which they wait."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from ..rules.task import Task, Traits, traits


class Gang(msgspec.Struct):
    """`queue`: a name of rules.admission.QUEUES, or READY. A member whose run does not name this gang has left it."""

    number: int
    pool_id: str
    tasks: tuple[Task, ...]
    queue: str

    @property
    def traits(self) -> Traits:
        return traits(self.tasks)


class GangQueue:
    """Numbers of gangs: higher priorities first, then in the order of arrival."""

    def __init__(self) -> None:
        self._by_priority: dict[int, OrderedDict[int, None]] = {}
        self._descending: list[int] = []  # negated priorities

    def add(self, number: int, priority: int) -> None:
        gangs = self._by_priority.get(priority)
        if gangs is None:
            gangs = self._by_priority[priority] = OrderedDict()
            insort(self._descending, -priority)
        gangs[number] = None

    def remove(self, number: int, priority: int) -> None:
        gangs = self._by_priority[priority]
        del gangs[number]
        if not gangs:
            del self._by_priority[priority]
            self._descending.remove(-priority)

    def first(self) -> int | None:
        return next(iter(self), None)

    def __iter__(self) -> Iterator[int]:
        for negated in self._descending:
            yield from self._by_priority[-negated]

    def __len__(self) -> int:
        return sum(len(gangs) for gangs in self._by_priority.values())

    def __bool__(self) -> bool:
        return bool(self._descending)
