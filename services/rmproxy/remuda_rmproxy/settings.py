"""Settings of rmproxy, beyond those of every service."""

from __future__ import annotations

from pydantic import Field

from remuda_bus.process import Settings
from remuda_rmproxy import limits


class RmproxySettings(Settings):
    """REMUDA_MAX_RMS and so on."""

    max_rms: int = Field(limits.RMS, ge=1, description="records of resource managers, including those that are gone")
    forget_after_days: float = Field(
        limits.FORGET_AFTER_DAYS,
        ge=0,
        description="days from the deregistration of a resource manager to the removal of its data",
    )
