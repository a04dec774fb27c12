"""Decide which application of a `stateaware` leaf queue may start (semantics section 9).

Of the applications that are not yet Running, at most one is scheduled. While one is Starting, it is that one. Otherwise
it is the oldest Accepted one with asks, whether its asks fit or not.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ..limits import LEFTOVERS
from ..rules import lifecycle
from ..state import Application


class StateawareTurn:
    """`whose`: the Accepted application that may start; None if one is Starting, or none asks. O(log n) for each
    change."""

    __slots__ = ("_accepted", "_starting", "_waiting", "whose")

    def __init__(self) -> None:
        self.whose: Application | None = None
        self._starting: dict[Application, None] = {}
        # Accepted applications with asks; and a heap of the same by age, in which those that left stay for a while.
        self._waiting: dict[Application, None] = {}
        self._accepted: list[tuple[int, Application]] = []

    def first(self) -> Application | None:
        """The application that has to be Running before another may start."""
        return next(iter(self._starting), self.whose)

    def hold_back(self, application: Application) -> bool:
        """Whether the asks of the application have to wait for the turn of another."""
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
        """The application has asks now."""
        if application.state != lifecycle.ACCEPTED:
            self.stops(application)
        elif application not in self._waiting:
            self._waiting[application] = None
            heappush(self._accepted, (application.seq, application))

    def stops(self, application: Application) -> None:
        """The application has no asks, or is not Accepted."""
        self._waiting.pop(application, None)
        if len(self._accepted) > 2 * len(self._waiting) + LEFTOVERS:
            self._accepted = [(each.seq, each) for each in self._waiting]
            heapify(self._accepted)

    def leave(self, application: Application) -> None:
        """The application is in another queue now."""
        self._starting.pop(application, None)
        self.stops(application)

    def settle(self) -> tuple[Application, ...]:
        """Find whose turn it is. Returns the applications that lost and got the turn; empty if nothing changed. Asks
        that the RM is asked about still count as asks."""
        accepted = self._accepted
        while accepted and accepted[0][1] not in self._waiting:
            heappop(accepted)
        was, self.whose = self.whose, None if self._starting or not accepted else accepted[0][1]
        if was is self.whose:
            return ()
        return tuple(application for application in (was, self.whose) if application is not None)
