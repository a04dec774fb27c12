"""The part of this process for one RM: it follows the RM, waits to lead it, or leads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from remuda_replication.lease.leaders import Ownership


@dataclass(slots=True)
class Seat:
    """`last_ms`: time of the RM's last commit that is known here. `follows`: by the rule, this process follows or leads
    the RM; None: not decided yet. `differs_since`: since when the rule requires the opposite. `hot`: it has caught up
    with the log. `stood_by`: it was hot while another process led. `elected`: resolved when this process leads."""

    last_ms: Callable[[], int] = lambda: 0
    follows: bool | None = None
    differs_since: float | None = None
    hot: bool = False
    stood_by: bool = False
    elected: asyncio.Future[Ownership] | None = None
    taking: bool = False
    leads: bool = False
    look: Callable[[], None] = lambda: None  # the leader checks whether it may stay
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def assign(self, follows: bool) -> None:
        self.follows, self.differs_since = follows, None
        self._changed.set()

    async def until(self, follows: bool) -> None:
        """Return when the process should follow the RM, or should not any more."""
        while self.follows is not follows:
            self._changed.clear()
            await self._changed.wait()
