"""What a process logs: levels of single modules of ours, and the trace to which a line belongs."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from structlog.types import EventDict

from remuda_bus.tracing import current_trace

OURS: Final = "remuda_"
_NUMBERS: Final = logging.getLevelNamesMapping()


class LogFilter:
    """`own`: the level of all modules without one. Without levels of modules, a line costs what it cost before."""

    def __init__(self) -> None:
        self.own = logging.INFO
        self._by_module: dict[str, int] = {}

    def set_own(self, level: int) -> None:
        self.own = level
        self._configure()

    def set_module(self, module: str, level: int | None) -> None:
        """Of the module and all below it; None: as the modules above it."""
        if level is None:
            self._by_module.pop(module, None)
        else:
            self._by_module[module] = level
        self._configure()

    def _configure(self) -> None:
        least = min((self.own, *self._by_module.values()))
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(least))

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        """A structlog processor: drops lines below the level of the module that logs them."""
        if self._by_module and _NUMBERS.get(method.upper(), logging.CRITICAL) < self._level_of(_logging_module()):
            raise structlog.DropEvent
        return event

    def _level_of(self, module: str) -> int:
        while module:
            if module in self._by_module:
                return self._by_module[module]
            module = module.rpartition(".")[0]
        return self.own


def _logging_module() -> str:
    frame = sys._getframe(2)
    while (name := str(frame.f_globals.get("__name__", ""))).partition(".")[0] == "structlog":
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return name


def add_trace_id(logger: object, method: str, event: EventDict) -> EventDict:
    """A structlog processor: the trace of the span around the line, if there is one."""
    if trace_id := current_trace():
        event["trace_id"] = trace_id
    return event


LOG_FILTER: Final = LogFilter()
