"""Warnings of a loop that fails again and again for the same reason: at once, and then at intervals."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import limits

log = structlog.get_logger()


class OutageLog:
    """For one loop. A warning with another text is logged at once."""

    def __init__(self) -> None:
        self._last: tuple[str, object] | None = None
        self._at = 0.0

    def warn(self, event: str, *, error: str, **about: object) -> None:
        now = asyncio.get_running_loop().time()
        if self._last == (event, error) and now - self._at < limits.OUTAGE_LOG_INTERVAL_S:
            return
        self._last, self._at = (event, error), now
        log.warning(event, **about, error=error)
