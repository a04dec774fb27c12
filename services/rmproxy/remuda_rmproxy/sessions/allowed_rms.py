"""Which RMs may register, by the setting `rms.allowed` (001, Scheduler Configuration). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from remuda_bus.bus import Refused
from remuda_bus.name_patterns import matches
from remuda_proto.bounds import shown
from remuda_rmproxy.records.status_codes import FORBIDDEN


class AllowedRms:
    """The RMs that may register. `entries`: names and patterns; None: every RM may register."""

    def __init__(self, entries: Sequence[str] | None) -> None:
        self._entries = entries

    def check(self, rm_id: str) -> None:
        """Raises Refused 403 for an RM that may not register. Whether the RM has registered before does not matter."""
        if self._entries is not None and not any(matches(entry, rm_id) for entry in self._entries):
            raise Refused(f"rmID {shown(rm_id)}: not among the RMs that the setting rms.allowed names", FORBIDDEN)


EVERY_RM = AllowedRms(None)
