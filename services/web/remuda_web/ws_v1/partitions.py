"""Partitions, their names, and clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from remuda_web.ws_v1.amounts import percent
from remuda_web.ws_v1.go_json import Json, nanoseconds, without_empty

CLUSTER: Final = "kubernetes"  # the reference names every cluster so, and dashboards show it


DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of an RM. `shown`: its name in answers: the RM's own, or `[RM]NAME` where several RMs have it."""

    rm: str
    name: str
    shown: str
    row: Mapping[str, Any]

    @property
    def newest(self) -> bool:
        """Whether answers have the fields of YuniKorn 1.5 and later: unless the RM has the rules of YuniKorn 1.4."""
        return "preemption_enabled" in self.row and not self.row["yunikorn_1_4"]

    @property
    def unique(self) -> str:
        """The scheduler's own name, which is always understood."""
        return f"[{self.rm}]{self.name}"


def places(rows_of_rms: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Place]:
    """`rows_of_rms`: RM -> rows of its partitions."""
    counts = Counter(row["name"] for rows in rows_of_rms.values() for row in rows)
    return [
        Place(rm, row["name"], row["name"] if counts[row["name"]] == 1 else f"[{rm}]{row['name']}", row)
        for rm, rows in rows_of_rms.items()
        for row in rows
    ]


def place_of(name: str, known: Iterable[Place]) -> Place | None:
    """The partition of this name: plain or with its RM. Case and surrounding blanks of the partition's own name are
    ignored, as in requests of RMs."""
    rm, bracket, own = name.rpartition("]")
    written = f"{rm}{bracket}{own.strip().lower()}"
    return next((place for place in known if written in (place.shown, place.unique)), None)


def partition(place: Place, states: Mapping[str, int]) -> Json:
    """`states`: state -> number of applications, ended and rejected ones too."""
    row = place.row
    capacity: Json = {}
    if row["total"]:
        used = {name: row["allocated"].get(name, 0) for name in row["total"]}
        capacity = {"capacity": row["total"], "usedCapacity": used, "utilization": percent(used, row["total"])}
    shown = {
        "clusterId": place.rm,
        "name": place.shown,
        "capacity": capacity,
        "nodeSortingPolicy": {"type": row["node_sort"], "resourceWeights": row["resource_weights"]},
        "totalNodes": row["nodes"],
        "applications": {**dict(sorted(states.items())), "total": sum(states.values())},
        "totalContainers": row["allocations"],
        "state": row["status"],
        "lastStateTransitionTime": nanoseconds(row["draining_since_ms"]),
    }
    if place.newest:
        shown["preemptionEnabled"] = row["preemption_enabled"]
        shown["quotaPreemptionEnabled"] = row["quota_preemption_enabled"]
        return without_empty(
            shown, "capacity", "lastStateTransitionTime", "preemptionEnabled", "quotaPreemptionEnabled"
        )
    return without_empty(shown, "capacity", "lastStateTransitionTime")


def cluster(place: Place, build_info: Mapping[str, str], started_ms: int) -> Json:
    return {
        "startTime": nanoseconds(started_ms),
        "rmBuildInformation": [{**build_info, "rmId": place.rm}],
        "partition": place.shown,
        "clusterName": CLUSTER,
    }
