"""How a SchedulerAPI connects."""

from __future__ import annotations

from dataclasses import dataclass

from remuda_bus.nats import Access
from remuda_sdk.resource_manager.arguments import seconds


@dataclass(frozen=True, slots=True)
class Options:
    """As the arguments of `connect`."""

    access: Access | None = None
    heartbeat_s: float | None = None
    connect_within_s: float = 10.0
    register_within_s: float = 20.0
    retry_for_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises ValueError, which names the argument."""
        for name in ("connect_within_s", "register_within_s", "retry_for_s"):
            seconds(name, getattr(self, name))
        if self.heartbeat_s is not None:
            seconds("heartbeat_s", self.heartbeat_s, 0.001)
