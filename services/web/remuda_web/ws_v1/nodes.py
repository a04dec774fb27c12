"""Nodes, and how many of them are used how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from remuda_web.ws_v1.amounts import dominant, percent
from remuda_web.ws_v1.applications import by_age
from remuda_web.ws_v1.go_json import Json, without_empty
from remuda_web.ws_v1.partitions import Place

# Attributes with fields of their own, and the attribute that names the partition.
HOST: Final = "si/hostname"
RACK: Final = "si/rackname"
PARTITION: Final = "si/node-partition"
# The reference answers `{}`, and its own web interface reads the list.
NOTHING_USED: Final[Json] = {"type": "", "utilization": []}
BUCKETS: Final = 10
Row = Mapping[str, Any]


def nodes(place: Place, rows: Iterable[Row], allocations: Iterable[Row]) -> list[Json]:
    on: dict[str, list[Row]] = defaultdict(list)
    for row in allocations:
        on[row["node"]].append(row)
    return [node(place, row, on[row["id"]]) for row in rows]


def node(place: Place, row: Row, allocations: Sequence[Row]) -> Json:
    reserved = row["reserved_for"]
    shown = {
        "nodeID": row["id"],
        "hostName": row["attributes"].get(HOST, ""),
        "rackName": row["attributes"].get(RACK, ""),
        "attributes": {PARTITION: place.unique, **row["attributes"]},
        "capacity": row["capacity"],
        "allocated": row["allocated"],
        "occupied": row["occupied"],
        "available": row["available"],
        "utilized": percent(row["allocated"], row["capacity"]),
        "allocations": by_age(place, allocations),
        "schedulable": row["status"] != "Draining",
        "isReserved": reserved is not None,
        "reservations": [f"{reserved['application']}|{reserved['key']}"] if reserved is not None else [],
    }
    if place.newest:
        shown["foreignAllocations"] = [_foreign(row, one) for one in row.get("rejected", ()) if one.get("foreign")]
    return without_empty(shown, "schedulable", "isReserved")


def _foreign(row: Row, one: Row) -> Json:
    """A foreign allocation: work on the node that is not remuda's, as the RM has reported it."""
    return {"allocationKey": one["allocation_key"], "resource": one["resource"], "nodeId": row["id"]}


def utilization(place: Place, rows: Sequence[Row]) -> Json:
    """The nodes by their use of the partition's dominant resource, in ten buckets."""
    kind = dominant(place.row["allocated"], place.row["total"])
    return _by_use(kind, rows) if kind else NOTHING_USED


def utilizations(place: Place, rows: Sequence[Row]) -> Json:
    """The same for every resource that a node has."""
    kinds = sorted({name for row in rows for name in row["capacity"]})
    return {
        "clusterId": place.rm, "partition": place.shown, "utilizations": [_by_use(kind, rows) for kind in kinds],
    }  # fmt: skip


def _by_use(kind: str, rows: Sequence[Row]) -> Json:
    names: list[list[str]] = [[] for _ in range(BUCKETS)]
    for row in rows:
        used = percent(row["allocated"], row["capacity"]).get(kind)
        if used is not None:
            names[min(max(ceil(used / BUCKETS) - 1, 0), BUCKETS - 1)].append(row["id"])
    return {
        "type": kind,
        "utilization": [
            without_empty(
                {
                    "bucketName": f"{number * 10}-{number * 10 + 10}%",
                    "numOfNodes": len(found),
                    "nodeNames": found,
                }
            )
            for number, found in enumerate(names)
        ],
    }
