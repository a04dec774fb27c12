"""Assertion messages of the tests of the bus."""

from __future__ import annotations

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """structlog's default draws tracebacks with all variables, which takes seconds."""
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
