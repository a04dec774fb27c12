"""Calls of the Kubernetes API at the start of a process, which waits for the API server and for rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from remuda_bus import health
from remuda_bus.retry import retry
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import ApiError

log = structlog.get_logger()
T = TypeVar("T")


async def until_answered(call: Callable[[], Awaitable[T]], purpose: str) -> T:
    """Repeat the call until it succeeds. `purpose`: what the process does meanwhile, for people."""

    def report(error: Exception) -> None:
        log.warning("the Kubernetes API does not answer as needed", purpose=purpose, error=str(error))

    health.PROCESS_HEALTH.set_status(purpose, ready=False)
    return await retry(call, limits.START_RETRY, on=ApiError, report=report)
