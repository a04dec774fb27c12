"""How a SchedulerAPI connects."""

from __future__ import annotations

from dataclasses import dataclass

from remuda_bus.nats import Access


@dataclass(frozen=True, slots=True)
class Options:
    """As the arguments of `connect`."""

    access: Access | None = None
    heartbeat_s: float | None = None
    connect_within_s: float = 10.0
    register_within_s: float = 20.0
    retry_for_s: float = 30.0
