"""The standby of one RM, and the replica that answers queries about it."""

from __future__ import annotations

from collections.abc import Callable

from remuda_bus.bus import Bus, Refused
from remuda_bus.metrics import rm_label
from remuda_bus.status_codes import UNAVAILABLE
from remuda_replication.leader import Leader
from remuda_replication.log import Position
from remuda_replication.members import Members
from remuda_replication.standby import Standby

from ..core import Core
from . import metrics
from .machine import CoreMachine
from .replica import Replica
from .settings import CoreSettings


class RmStandby(Standby):
    def __init__(
        self, bus: Bus, rm_id: str, members: Members, clock_ms: Callable[[], int], settings: CoreSettings
    ) -> None:
        self.core = core = Core(rm_id)
        metrics.VIOLATIONS.labels(rm_label(rm_id))  # 0 until there is one
        super().__init__(bus, CoreMachine(core, settings.allocations_per_pass), members, clock_ms, settings)
        self.replica = Replica(core, self._answered_at, clock_ms, settings.snapshot_in_child)
        self.moved = self.replica.moved
        self.leads_by = self._leads_by

    def _answered_at(self) -> Position:
        """The commit of the state. Raises Refused when it is the state of none any more."""
        if not self.hot:
            raise Refused(f"this core does not follow {self.rm_id!r} any more, try again", UNAVAILABLE)
        return self.position

    def _leads_by(self, leader: Leader | None) -> None:
        self.replica.leader = leader
