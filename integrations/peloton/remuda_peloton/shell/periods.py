"""Work of the resource manager at intervals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Periods:
    """In seconds; defaults are Peloton's. An admission pass also follows what has changed, at once."""

    admission_s: float = 0.1
    entitlement_s: float = 60.0
    preemption_s: float = 60.0
