"""Writes the table of metrics into metrics.md, from the metrics that every room declares.

python -m docs.metrics [--check]
"""

from __future__ import annotations

import importlib
from pathlib import Path

from prometheus_client import Counter, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase

from docs.sections import main
from remuda_replication.metrics import ReplicationMetrics

ROOMS = (
    "remuda_bus.metrics", "remuda_core.shell.metrics", "remuda_rmproxy.metrics", "remuda_config.metrics",
    "remuda_events.metrics", "remuda_archive.metrics", "remuda.history.shadow", "remuda_grpc.metrics",
    "remuda_kubernetes.metrics",
    "remuda_peloton.shell.metrics",
    "remuda_peloton.shell.shared_metrics",
)  # fmt: skip
SUFFIXES = {Counter: "_total", Info: "_info"}


def declared(room: str) -> list[MetricWrapperBase]:
    """The metrics that a room declares, alone or together for a shell."""
    found: list[MetricWrapperBase] = []
    for value in vars(importlib.import_module(room)).values():
        together = vars(value).values() if isinstance(value, ReplicationMetrics) else (value,)
        found += [one for one in together if isinstance(one, MetricWrapperBase)]
    return found


def name_of(metric: MetricWrapperBase) -> str:
    return f"{metric._name}{SUFFIXES.get(type(metric), '')}"


def table() -> str:
    """A list. Metrics of several rooms that differ in the name of the service alone are one entry."""
    names: dict[tuple[str, type[MetricWrapperBase], tuple[str, ...], str], list[str]] = {}
    for room in ROOMS:
        for metric in declared(room):
            name, labels = name_of(metric), tuple(metric._labelnames)
            rest = name.removeprefix("remuda_").partition("_")[2]
            same = (rest, type(metric), labels, metric._documentation)
            names.setdefault(same, []).append(f"`{name}{{{','.join(labels)}}}`" if labels else f"`{name}`")
    lines = []
    for (_, kind, _, said), metrics in names.items():
        lines.append(f"- {', '.join(metrics)}{' (histogram)' if kind is Histogram else ''}: {said}\n")
    return "".join(lines)


if __name__ == "__main__":
    main(Path(__file__).with_name("metrics.md"), {"<!-- written by docs/metrics.py -->": table()})
