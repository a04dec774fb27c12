"""Logging of a service process."""

from __future__ import annotations

import logging
import sys

import structlog

from remuda_bus.settings import Settings
from remuda_replication.process.log_filter import LOG_FILTER, add_trace_id


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
    LOG_FILTER.set_own(logging.getLevelNamesMapping()[settings.log_level.upper()])
    structlog.contextvars.bind_contextvars(service=service)
    libraries = logging.StreamHandler(sys.stderr)
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    libraries.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=shared))
    logging.basicConfig(level=logging.WARNING, handlers=[libraries])
