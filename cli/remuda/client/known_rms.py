"""Which resource managers are known: a list that is empty may be that of a name that is misspelt."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus

from ..errors import UserError


async def check_rm(bus: Bus, rm: str) -> None:
    """Raises UserError unless the RM is registered, or has been and was not forgotten."""
    if await bus.get(subjects.RMS.name, subjects.key_of(rm)) is None:
        raise UserError(f"no resource manager {rm!r} is registered; `remuda status` lists them")
