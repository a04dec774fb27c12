"""The applications of a partition that have ended, by the time at which they ended. The oldest are removed first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ..limits import LEFTOVERS
from .application import Application


class Ended:
    """A heap in which removed applications stay until they reach the front, or outnumber the others."""

    __slots__ = ("_heap", "_there")

    def __init__(self) -> None:
        # (at_ms, seq, application): the same order live and after a restart.
        self._heap: list[tuple[int, int, Application]] = []
        self._there: dict[Application, None] = {}

    def __len__(self) -> int:
        return len(self._there)

    def __contains__(self, application: Application) -> bool:
        return application in self._there

    def add_application(self, application: Application) -> None:
        self._there[application] = None
        heappush(self._heap, (application.state_at_ms, application.seq, application))

    def discard_application(self, application: Application) -> None:
        """Does nothing if it is not there."""
        self._there.pop(application, None)
        if len(self._heap) > 2 * len(self._there) + LEFTOVERS:
            self._heap = [entry for entry in self._heap if entry[-1] in self._there]
            heapify(self._heap)

    def first(self) -> Application:
        """The application that ended first. There must be one."""
        while self._heap[0][-1] not in self._there:
            heappop(self._heap)
        return self._heap[0][-1]
