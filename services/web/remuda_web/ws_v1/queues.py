"""Queues as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from remuda_web.ws_v1.amounts import percent
from remuda_web.ws_v1.go_json import Json, nanoseconds, without_empty
from remuda_web.ws_v1.partitions import DEFAULT, Place

NOTHING_PENDING: Final = -(2**31)
PREEMPTION_DELAY: Final = "30s"
# The tree of the default partition while no RM is registered.
ROOT_ALONE: Final[Json] = {
    "queuename": "root", "status": "Active", "partition": DEFAULT, "isLeaf": False, "isManaged": True,
    "currentPriority": NOTHING_PENDING,
}  # fmt: skip
Row = Mapping[str, Any]


def tree(place: Place, rows: Sequence[Row], top: str = "root") -> Json:
    """`rows`: the queues of the partition, parents before children. Without rows there is no tree. `top`: the queue
    whose tree it is."""
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
        if above and above in shown:
            shown[above].setdefault("children", []).append(one)
    if place.newest:
        _add_newest(place, rows, shown)
    return shown.get(top, {})


def _add_newest(place: Place, rows: Sequence[Row], shown: Mapping[str, Json]) -> None:
    """The fields of YuniKorn 1.5 and later."""
    headrooms: dict[str, dict[str, int]] = {}
    for row in rows:
        path = row["path"]
        above = path.rpartition(".")[0]
        most = row["max"] if above else place.row["total"]
        headrooms[path] = _headroom(most, row["allocated"], headrooms.get(above, {}))
        if path in shown:
            shown[path] |= _newest(place, row, headrooms[path])
        if above in shown:
            shown[above].setdefault("childNames", []).append(path)


def _headroom(most: Mapping[str, int], allocated: Mapping[str, int], above: Mapping[str, int]) -> dict[str, int]:
    """For each resource that the queue or a queue above limits: what may still be allocated here."""
    found = dict(above)
    for name, amount in most.items():
        own = max(amount - allocated.get(name, 0), 0)
        found[name] = min(own, found.get(name, own))
    return found


def _newest(place: Place, row: Row, headroom: Mapping[str, int]) -> Json:
    values: Mapping[str, str] = row["properties"]
    policy, order = values.get("preemption.policy", "default"), values.get("application.sort.policy", "fifo")
    shown = {
        "headroom": headroom,
        "sortingPolicy": (order if order.startswith("fair") else "fifo") if row["leaf"] else "fair",
        "prioritySorting": values.get("application.sort.priority") != "disabled",
        "preemptionEnabled": place.row["preemption_enabled"] and policy != "disabled",
        "isPreemptionFence": policy == "fence",
        "preemptionDelay": values.get("preemption.delay", PREEMPTION_DELAY) if row["leaf"] else "",
        "isPriorityFence": values.get("priority.policy") == "fence",
        "priorityOffset": int(values.get("priority.offset", "0")),
    }
    return without_empty(shown, *(name for name, value in shown.items() if isinstance(value, bool)))


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
    """The amounts that a queue above its maximum has to give back: since when, and when allocations are preempted."""
    since, at = nanoseconds(row["since_ms"]), nanoseconds(row["preempt_at_ms"])
    return {"resource": row["above"], "since": since, "preemptedAt": at}


def template(row: Row) -> Json:
    return without_empty(
        {"maxResource": row["max"], "guaranteedResource": row["guaranteed"], "properties": row["properties"]}
    )
