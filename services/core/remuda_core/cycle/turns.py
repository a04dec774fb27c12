"""Whose turn it is in a `stateaware` leaf queue (semantics section 9): of the applications that are not yet Running at
most one is considered. While one is Starting, no Accepted one is; else only the oldest Accepted one that asks for
something, whether that fits or not.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ..rules import lifecycle

if TYPE_CHECKING:
    from ..state import Application


class Turns:
    __slots__ = ("_accepted", "_starting", "whose")

    def __init__(self) -> None:
        self.whose: Application | None = None
        self._starting: dict[Application, None] = {}
        # By age; that one is not Accepted any more, or asks for nothing, is found out when it comes up.
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
            self.asks(application)

    def asks(self, application: Application) -> None:
        """It may ask for something now."""
        if application.state == lifecycle.ACCEPTED:
            heappush(self._accepted, (application.seq, application))

    def settle(self) -> tuple[Application, ...]:
        """Whose turn it was and whose it is, if that is another. What the RM is asked about is still asked for."""
        accepted = self._accepted
        while accepted and (accepted[0][1].state != lifecycle.ACCEPTED or not accepted[0][1].asks):
            heappop(accepted)
        was, self.whose = self.whose, None if self._starting or not accepted else accepted[0][1]
        if was is self.whose:
            return ()
        return tuple(application for application in (was, self.whose) if application is not None)
