"""Whose turn it is in a `stateaware` leaf queue (semantics section 9): of the applications that are not yet Running at
most one is considered. While one is Starting, no Accepted one is; else only the oldest Accepted one that asks for
something, whether that fits or not.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ..limits import LEFTOVERS
from ..rules import lifecycle
from ..state import Application


class StateawareTurn:
    __slots__ = ("_accepted", "_starting", "_waiting", "whose")

    def __init__(self) -> None:
        self.whose: Application | None = None
        self._starting: dict[Application, None] = {}
        # Accepted ones that ask for something, and the same by age, with those that have left since.
        self._waiting: dict[Application, None] = {}
        self._accepted: list[tuple[int, Application]] = []

    def first(self) -> Application | None:
        """Who has to be Running before another may start."""
        return next(iter(self._starting), self.whose)

    def hold_back(self, application: Application) -> bool:
        return application.state == lifecycle.ACCEPTED and application is not self.whose

    def state_changed(self, application: Application) -> None:
        if application.state == lifecycle.STARTING:
            self._starting[application] = None
        else:
            self._starting.pop(application, None)
        if application.asks:
            self.asks(application)
        else:
            self.stops(application)

    def asks(self, application: Application) -> None:
        """It may ask for something now."""
        if application.state != lifecycle.ACCEPTED:
            self.stops(application)
        elif application not in self._waiting:
            self._waiting[application] = None
            heappush(self._accepted, (application.seq, application))

    def stops(self, application: Application) -> None:
        """It asks for nothing, or is not Accepted."""
        self._waiting.pop(application, None)
        if len(self._accepted) > 2 * len(self._waiting) + LEFTOVERS:
            self._accepted = [(each.seq, each) for each in self._waiting]
            heapify(self._accepted)

    def settle(self) -> tuple[Application, ...]:
        """Whose turn it was and whose it is, if that is another. What the RM is asked about is still asked for."""
        accepted = self._accepted
        while accepted and accepted[0][1] not in self._waiting:
            heappop(accepted)
        was, self.whose = self.whose, None if self._starting or not accepted else accepted[0][1]
        if was is self.whose:
            return ()
        return tuple(application for application in (was, self.whose) if application is not None)
