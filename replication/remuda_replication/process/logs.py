"""Logging of a service process: lines on stderr, with levels that can be changed while the process runs
(`remuda log SERVICE LEVEL --for 10m`).

A change ends by itself, so that a debug level is not forgotten. A process starts with the level of its settings. Single
modules of ours may have levels of their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import structlog
from structlog.types import EventDict

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_bus.settings import Settings
from remuda_bus.tracing import current_trace
from remuda_proto.bounds import shown

# A changed log level is reset after a day at most. Loggers of libraries that are changed at once, and their names.
LOG_LEVEL_MOST_S = 86_400.0
LOGGERS_CHANGED = 20
LOGGER_CHARACTERS = 100


def configure_logging(service: str, settings: Settings) -> None:
    """Log to stderr with structlog. Warnings and errors that libraries log with the standard library go there too."""
    shared: list[structlog.types.Processor] = [
        add_trace_id,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.log_format == "json":
        rendering: list[structlog.types.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        plain = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[LOG_FILTER, *shared, *rendering],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    set_log_level(settings.log_level)
    structlog.contextvars.bind_contextvars(service=service)
    libraries = logging.StreamHandler(sys.stderr)
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    libraries.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=shared))
    logging.basicConfig(level=logging.WARNING, handlers=[libraries])


def set_log_level(level: str) -> None:
    """Set the level of this process, one of LEVELS. A level that was changed over the bus stays until it ends."""
    LOG_FILTER.set_base(logging.getLevelNamesMapping()[level.upper()])


log = structlog.get_logger()

LEVELS: Final = ("debug", "info", "warning", "error")
# The logger of the service itself. Others are modules of ours, such as `remuda_core.shell`, and those of libraries,
# such as `nats`.
OWN: Final = ""


OURS: Final = "remuda_"


class LogLevels:
    """The levels of this process, changed by requests over the bus."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
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
        """Change the level of a logger for `for_s`, or until its next change. Raises Refused when this process has no
        such module, and when too many loggers are changed."""
        if logger.startswith(OURS) and not any(one == logger or one.startswith(f"{logger}.") for one in sys.modules):
            raise Refused(f"this process has no module {shown(logger)}")
        if (earlier := self._resets.pop(logger, None)) is not None:
            earlier.cancel()
        elif len(self._resets) >= LOGGERS_CHANGED:
            raise Refused(f"the levels of {len(self._resets)} loggers are changed already, wait until one is reset")
        _set(logger, level)
        log.warning("the log level is changed", logger=logger or "own", level=level, for_s=for_s)
        self._resets[logger] = asyncio.get_running_loop().call_later(for_s, self._reset, logger)

    def _reset(self, logger: str) -> None:
        del self._resets[logger]
        log.warning("the log level is reset", logger=logger or "own")
        _set(logger, "")


def _set(logger: str, level: str) -> None:
    """Set the level of a logger. `level`: empty: the level of the logger above it, or of the process."""
    number = logging.getLevelNamesMapping()[level.upper()] if level else logging.NOTSET
    if logger == OWN:
        LOG_FILTER.set_own(number if level else LOG_FILTER.base)
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
        ("logger", logger, lambda: isinstance(logger, str) and len(logger) <= LOGGER_CHARACTERS, "a name"),
        ("level", level, lambda: level in LEVELS, f"one of {', '.join(LEVELS)}"),
        (
            "for_s", for_s, lambda: type(for_s) in (int, float) and 0 < for_s <= LOG_LEVEL_MOST_S,
            f"seconds, at most {LOG_LEVEL_MOST_S:,.0f}",
        ),
    )  # fmt: skip
    for name, value, holds, expected in checks:
        if not holds():
            raise Refused(f"{name} is {shown(value)}, expected {expected}")
    return logger, level, float(for_s)


_NUMBERS: Final = logging.getLevelNamesMapping()


class LogFilter:
    """A structlog processor that drops lines below the level of the module that logs them. `own`: the level of all
    modules without a level of their own. `base`: to which it returns when a change of it ends. While no module has a
    level, a line costs no look at its module."""

    def __init__(self) -> None:
        self.own = self.base = logging.INFO
        self._by_module: dict[str, int] = {}

    def set_own(self, level: int) -> None:
        self.own = level
        self._configure()

    def set_base(self, level: int) -> None:
        is_changed = self.own != self.base
        self.base = level
        if not is_changed:
            self.set_own(level)

    def set_module(self, module: str, level: int | None) -> None:
        """Set the level of a module and of all modules below it; None: they get the level of the module above."""
        if level is None:
            self._by_module.pop(module, None)
        else:
            self._by_module[module] = level
        self._configure()

    def _configure(self) -> None:
        least = min((self.own, *self._by_module.values()))
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(least))

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        """Return the event, or drop the line. Raises DropEvent."""
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
    """A structlog processor that adds the ID of the trace in whose span the line is logged, if there is a span."""
    if trace_id := current_trace():
        event["trace_id"] = trace_id
    return event


LOG_FILTER: Final = LogFilter()
