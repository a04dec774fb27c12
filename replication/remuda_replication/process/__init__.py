"""Runs the `main` of a service as a process: settings, logging, health pages, traces, signals, the exit code."""

from remuda_replication.process import log_library  # isort: skip # noqa: F401  # before anything imports structlog
from remuda_bus.settings import Settings
from remuda_replication.process.logs import configure_logging, set_log_level
from remuda_replication.process.run import GC_THRESHOLDS, access_of, run

__all__ = ["GC_THRESHOLDS", "Settings", "access_of", "configure_logging", "run", "set_log_level"]
