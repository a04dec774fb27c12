"""Metrics under the names that dashboards of this family use, in the Prometheus text format 0.0.4.

The names of 1.4 contain those of queues, and some counters have no suffix `_total`. A client library writes neither, so
this module writes the text, with every digit of a number. Since 1.5 queues are in a label; both forms are here. Queues
of one path in several partitions are added up. Where paths of several queues are written alike (`a-b`, `a_b`), their
series have a label with the path.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from remuda_web.limits import METRICS_OF_QUEUES
from remuda_web.ws_v1.amounts import percent
from remuda_web.ws_v1.applications import ENDED, RUNNING

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
RESOURCES: Final = "Resources of the queue: allocated, pending, preempting, guaranteed and max."
APPLICATIONS: Final = "Applications of the queue by state."
USAGE: Final = "Nodes by the used share of the resource."
# Of the share of a node's resource in use, in per cent. The second one has a blank in the reference.
RANGES: Final = ("[0,10%]", "(10%, 20%]", *(f"({low}%,{low + 10}%]" for low in range(20, 100, 10)))
_NOT_IN_NAMES: Final = re.compile(r"\W", re.ASCII)
Labels = tuple[tuple[str, str], ...]
Row = Mapping[str, Any]


@dataclass
class Family:
    """`samples`: by what the name of the family is made from, as a label, and by the other labels."""

    kind: str
    help: str
    samples: dict[tuple[Labels, Labels], int] = field(default_factory=lambda: defaultdict(int))

    def labelled(self) -> dict[Labels, int]:
        """The samples by their labels. Different things whose names are written alike keep a series each."""
        several = len({named for named, _ in self.samples}) > 1
        return {((*named, *labels) if several else labels): value for (named, labels), value in self.samples.items()}


class Families:
    """Metric families by name."""

    def __init__(self) -> None:
        self._found: dict[str, Family] = {}

    def add(self, name: str, kind: str, text: str, value: int, named: Labels = (), **labels: str) -> None:
        """Add to the sample with these labels. `named`: the queue or resource that the name contains, as a label."""
        family = self._found.setdefault(f"yunikorn_{name}", Family(kind, text))
        family.samples[named, tuple(sorted(labels.items()))] += value

    def text(self) -> bytes:
        lines: list[str] = []
        for name, family in sorted(self._found.items()):
            lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
            lines += [f"{name}{_labels(labels)} {value:d}" for labels, value in sorted(family.labelled().items())]
        return ("\n".join(lines) + "\n").encode()


def _labels(labels: Labels) -> str:
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(quoted) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def name_of(queue: str) -> str:
    return _NOT_IN_NAMES.sub("_", queue)


def add_queues(to: Families, total: Mapping[str, int], rows: Sequence[Row]) -> frozenset[str]:
    """`total`: what the nodes of the partition have. Returns the paths of the queues that have metrics."""
    shown = rows[:METRICS_OF_QUEUES]
    for row in shown:
        path = row["path"]
        most = row["max"] if "." in path else total
        entitled = {"guaranteed": row["guaranteed"], "max": most}
        every = {**{one: row[one] for one in ("allocated", "pending", "preempting")}, **entitled}
        _add_amounts(to, "queue_resource", every, queue=path)
        _add_amounts(to, f"{name_of(path)}_queue_resource", every, (("queue", path),))
        if "." in path and row["managed"]:  # the reference has these under the bare name of the queue
            _add_amounts(to, f"{name_of(path.rpartition('.')[2])}_queue_resource", entitled, (("queue", path),))
    return frozenset(row["path"] for row in shown)


def _add_amounts(
    to: Families, family: str, by_state: Mapping[str, Mapping[str, int]], named: Labels = (), **labels: str
) -> None:
    for state, amounts in by_state.items():
        for resource, amount in amounts.items():
            to.add(family, "gauge", RESOURCES, amount, named, resource=resource, state=state, **labels)


def add_applications(to: Families, rows: Iterable[Row], rejections: Sequence[Row], queues: Container[str]) -> None:
    """`queues`: the paths of those that have metrics."""
    text = "Applications by state."
    for row in rows:
        state = _state(row["state"])
        if row["queue"] in queues:
            named = (("queue", row["queue"]),)
            to.add(f"{name_of(row['queue'])}_queue_app", "gauge", APPLICATIONS, 1, named, state=state)
            to.add("queue_app", "gauge", APPLICATIONS, 1, queue=row["queue"], state=state)
        if state != "accepted":
            to.add("scheduler_application_total", "gauge", text, 1, state=state)
    if rejections:
        to.add("queue_app", "gauge", APPLICATIONS, len(rejections), state="rejected")


def _state(state: str) -> str:
    """The reference counts applications that have not started as accepted."""
    if state in RUNNING:
        return "running"
    return state.lower() if state in ENDED else "accepted"


def add_nodes(to: Families, rows: Sequence[Row]) -> None:
    text = "Nodes by state."
    to.add("scheduler_node", "gauge", text, len(rows), state="active")
    to.add("scheduler_node", "gauge", text, 0, state="failed")
    to.add("scheduler_node", "gauge", text, sum(row["status"] == "Draining" for row in rows), state="draining")
    for row in rows:
        for resource, used in percent(row["allocated"], row["capacity"]).items():
            family = f"scheduler_{name_of(resource)}_node_usage_total"
            place = min(max((used - 1) // 10, 0), len(RANGES) - 1)
            for number, range_ in enumerate(RANGES):
                to.add(family, "gauge", USAGE, int(number == place), (("resource", resource),), range=range_)


def add_allocations(to: Families, ever: int, now: int) -> None:
    """Allocations since the RM's data began, and those there are now."""
    family, text = "scheduler_container_allocation_attempt_total", "Allocations that were made, and that were released."
    to.add(family, "counter", text, ever, state="allocated")
    to.add(family, "counter", text, ever - now, state="released")
    to.add(family, "counter", text, 0, state="error")  # an error ends the core's process
