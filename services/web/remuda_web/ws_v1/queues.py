"""Queues as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from remuda_web.ws_v1.amounts import percent
from remuda_web.ws_v1.go_json import Json, nanoseconds, without_empty
from remuda_web.ws_v1.partitions import Place

NOTHING_PENDING: Final = -(2**31)
Row = Mapping[str, Any]


def tree(place: Place, rows: Sequence[Row]) -> Json:
    """`rows`: the queues of the partition, parents before children. Without rows there is no tree."""
    shown: dict[str, Json] = {}
    allocating: dict[str, list[str]] = {}
    for row in reversed(rows):
        path = row["path"]
        below = allocating.setdefault(path, [])
        below += row["allocating_accepted_applications"]
        allocating.setdefault(path.rpartition(".")[0], []).extend(below)
    for row in rows:
        path = row["path"]
        above = path.rpartition(".")[0]
        one = shown[path] = queue(place, row, sorted(allocating[path]))
        if above:
            shown[above].setdefault("children", []).append(one)
    return shown.get("root", {})


def queue(place: Place, row: Row, allocating: list[str]) -> Json:
    """One queue without those below. `allocating`: Accepted applications, here and below, that have been given
    something."""
    path, root = row["path"], "." not in row["path"]
    most = place.row["total"] if root else row["max"]
    shown = {
        "queuename": path,
        "status": row["status"],
        "partition": place.shown if root else "",
        "pendingResource": row["pending"],
        "maxResource": most,
        "guaranteedResource": row["guaranteed"],
        "allocatedResource": row["allocated"],
        "preemptingResource": row["preempting"],
        "excess": excess(row["excess"]) if row["excess"] else {},
        "isLeaf": row["leaf"],
        "isManaged": row["managed"],
        "properties": row["properties"],
        "parent": path.rpartition(".")[0],
        "template": template(row["template"]) if row["template"] else {},
        "absUsedCapacity": percent(row["allocated"], most),
        "maxRunningApps": row["max_applications"],
        "runningApps": row["running_applications"] - len(allocating),
        "currentPriority": row["priority"] if row["asks_pending"] else NOTHING_PENDING,
        "allocatingAcceptedApps": allocating,
    }
    return without_empty(shown, "partition", "isLeaf", "isManaged", "currentPriority")


def excess(row: Row) -> Json:
    """What the queue has to give back, as it is above its maximum: since when, and when allocations are preempted."""
    since, at = nanoseconds(row["since_ms"]), nanoseconds(row["preempt_at_ms"])
    return {"resource": row["above"], "since": since, "preemptedAt": at}


def template(row: Row) -> Json:
    return without_empty(
        {"maxResource": row["max"], "guaranteedResource": row["guaranteed"], "properties": row["properties"]}
    )
