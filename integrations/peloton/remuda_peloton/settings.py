"""Inputs of decisions beside the state, and the intervals of the resource manager's own work.

Times are in seconds, as Peloton configures them; 0: no time-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """Defaults are Peloton's. The last group corrects defects whose correction changes numbers
    (docs/differences-peloton.md)."""

    placing_timeout_s: float = 600.0
    launching_timeout_s: float = 1_200.0
    reserving_timeout_s: float = 1_800.0
    preempting_timeout_s: float = 600.0
    placed_timeout_s: float = 600.0

    retry_backoff_s: float = 300.0
    retry_cycles: int = 3
    attempts_per_cycle: int = 3
    enable_placement_backoff: bool = True
    enable_host_reservation: bool = False

    reconciliation_age_s: float = 60.0

    preemption_enabled: bool = True
    sustained_over_allocation_count: int = 5

    scale_reservations: bool = False
    spread_leftovers: bool = False
    fewest_victims: bool = False
    survivors_keep_their_place: bool = False
    count_admitted_only: bool = False
    whole_gangs: bool = False
    reserve_after_failures: bool = False
    preempt_all_states: bool = False


DEFAULT: Final = Settings()


@dataclass(frozen=True)
class Periods:
    """The intervals of admission passes, calculations of entitlements and preemption cycles, in seconds; defaults are
    Peloton's. An admission pass also follows a change, at once."""

    admission_s: float = 0.1
    entitlement_s: float = 60.0
    preemption_s: float = 60.0
