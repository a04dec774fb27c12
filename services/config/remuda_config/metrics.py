"""Metrics of a configuration process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

VERSION = gauge("remuda_config_version", "The number of the version of the configuration that is in force.")
PROBLEMS = gauge("remuda_config_problems", "Problems of the file's present content; 0: it is in force.")
RESOLVED = counter("remuda_config_resolved", "Configurations that were resolved for resource managers.", ("result",))
