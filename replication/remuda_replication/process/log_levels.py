"""Levels of what a process logs, changed while it runs: `remuda log SERVICE LEVEL --for 10m`.

A change ends by itself, so that a debug level is not forgotten. A process starts with the level of its settings.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_proto.bounds import shown
from remuda_replication.process.log_filter import LOG_FILTER, OURS

log = structlog.get_logger()

LEVELS: Final = ("debug", "info", "warning", "error")
# The logger of the service itself. Others are modules of ours, such as `remuda_core.shell`, and those of libraries,
# such as `nats`.
OWN: Final = ""


class LogLevels:
    """`configured`: the level of the settings."""

    def __init__(self, instance: str, configured: str) -> None:
        self._instance = instance
        self._configured = configured
        self._resets: dict[str, asyncio.TimerHandle] = {}

    async def serve(self, bus: Bus, service: str) -> None:
        await self.serve_on(bus, subjects.log_level(service))

    async def serve_on(self, bus: Bus, subject: str) -> None:
        await bus.serve(subject, self._answer, "log_level", lambda: True)

    async def _answer(self, message: Message) -> bytes:
        logger, level, for_s = _read(message.payload)
        self.change(logger, level, for_s)
        return json.dumps({"instance": self._instance, "logger": logger, "level": level, "for_s": for_s}).encode()

    def change(self, logger: str, level: str, for_s: float) -> None:
        """For so long, or until the next change of this logger. Raises Refused when this process has no such module,
        and when too many loggers are changed."""
        if logger.startswith(OURS) and not any(one == logger or one.startswith(f"{logger}.") for one in sys.modules):
            raise Refused(f"this process has no module {shown(logger)}")
        if (earlier := self._resets.pop(logger, None)) is not None:
            earlier.cancel()
        elif len(self._resets) >= limits.LOGGERS_CHANGED:
            raise Refused(f"the levels of {len(self._resets)} loggers are changed already, wait until one is reset")
        _set(logger, level)
        log.warning("the log level is changed", logger=logger or "own", level=level, for_s=for_s)
        self._resets[logger] = asyncio.get_running_loop().call_later(for_s, self._reset, logger)

    def _reset(self, logger: str) -> None:
        del self._resets[logger]
        log.warning("the log level is as before", logger=logger or "own")
        _set(logger, self._configured if logger == OWN else "")


def _set(logger: str, level: str) -> None:
    """`level`: "": as the loggers above it."""
    number = logging.getLevelNamesMapping()[level.upper()] if level else logging.NOTSET
    if logger == OWN:
        LOG_FILTER.set_own(number)
    elif logger.startswith(OURS):
        LOG_FILTER.set_module(logger, number if level else None)
    else:
        logging.getLogger(logger).setLevel(number)


def _read(payload: bytes) -> tuple[str, str, float]:
    """Logger, level and duration of a request. Raises Refused."""
    try:
        request: Any = json.loads(payload)
        found: tuple[Any, Any, Any] = request.get("logger", OWN), request.get("level"), request.get("for_s")
    except (ValueError, AttributeError, RecursionError):
        raise Refused("the request is not a JSON object") from None
    logger, level, for_s = found
    checks: tuple[tuple[str, Any, Callable[[], bool], str], ...] = (
        ("logger", logger, lambda: isinstance(logger, str) and len(logger) <= limits.LOGGER_CHARACTERS, "a name"),
        ("level", level, lambda: level in LEVELS, f"one of {', '.join(LEVELS)}"),
        (
            "for_s", for_s, lambda: type(for_s) in (int, float) and 0 < for_s <= limits.LOG_LEVEL_MOST_S,
            f"seconds, at most {limits.LOG_LEVEL_MOST_S:,.0f}",
        ),
    )  # fmt: skip
    for name, value, holds, expected in checks:
        if not holds():
            raise Refused(f"{name} is {shown(value)}, expected {expected}")
    return logger, level, float(for_s)
