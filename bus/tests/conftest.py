"""For tests of the bus: short tracebacks, short leases."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import structlog

from remuda_bus import subjects


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """structlog's default draws tracebacks with all variables, which takes seconds."""
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(subjects.LEASES, ttl_s=1.0)
    buckets = tuple(short if bucket is subjects.LEASES else bucket for bucket in subjects.BUCKETS)
    monkeypatch.setattr(subjects, "LEASES", short)
    monkeypatch.setattr(subjects, "BUCKETS", buckets)
