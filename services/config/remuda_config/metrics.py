"""Metrics of a configuration process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

VERSION = gauge("remuda_config_version", "Version of the configuration in force.")
PROBLEMS = gauge("remuda_config_problems", "Problems of the file; 0: it is in force.")
RESOLVED = counter("remuda_config_resolved", "Configurations resolved for resource managers.", ("result",))
