"""Applications, with their asks and allocations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from remuda_web.ws_v1.go_json import Json, nanoseconds, without_empty
from remuda_web.ws_v1.partitions import Place

NOTHING_PENDING: Final = -(2**31)
NEW: Final = "New"
COMPLETED: Final = ("Completed",)
REJECTED: Final = ("Rejected",)
ENDED: Final = ("Completed", "Failed", "Rejected", "Expired")
RUNNING: Final = ("Starting", "Running")
PREEMPTED: Final = 3  # TerminationType PREEMPTED_BY_SCHEDULER
Row = Mapping[str, Any]


def states(applications: Iterable[Row], rejections: Iterable[Row]) -> dict[str, int]:
    return dict(Counter(row["state"] for rows in (applications, rejections) for row in rows))


def applications(place: Place, rows: Iterable[Row], asks: Iterable[Row], allocations: Iterable[Row]) -> list[Json]:
    """`asks`, `allocations`: of these applications and perhaps others."""
    asks_of: dict[str, list[Row]] = defaultdict(list)
    allocations_of: dict[str, list[Row]] = defaultdict(list)
    for row in asks:
        asks_of[row["application"]].append(row)
    for row in allocations:
        allocations_of[row["application"]].append(row)
    return [application(place, row, asks_of[row["id"]], allocations_of[row["id"]]) for row in rows]


def application(place: Place, row: Row, asks: Sequence[Row], allocations: Sequence[Row]) -> Json:
    shown = {
        "applicationID": row["id"],
        "usedResource": row["allocated"],
        "maxUsedResource": row["max_allocated"],
        "pendingResource": row["pending"],
        "partition": place.shown,
        "queueName": row["queue"],
        "submissionTime": nanoseconds(row["submitted_ms"]),
        "finishedTime": nanoseconds(row["since_ms"]) if row["state"] in ENDED else 0,
        "requests": [ask(place, one) for one in asks if one["pending"] > 0],
        "allocations": by_age(place, allocations),
        "applicationState": row["state"],
        "user": row["user"],
        "groups": row["groups"],
        # The web interface needs the list, also an empty one.
        "stateLog": [
            {"time": nanoseconds(one["at_ms"]), "applicationState": one["state"]}
            for one in row["states"]
            if one["state"] != NEW
        ],
        "placeholderData": [_task_group(group) for group in row["task_groups"] if group["count"]],
        "hasReserved": bool(row["reservations"]),
        "reservations": [f"{node}|{one['key']}" for one in row["reservations"] for node in one["nodes"]],
        "maxRequestPriority": row["priority"] if row["asks"] else NOTHING_PENDING,
    }
    return without_empty(shown, "stateLog")


def rejected(place: Place, row: Row) -> Json:
    shown = {
        "applicationID": row["id"],
        "partition": place.shown,
        "queueName": row["queue"],
        "submissionTime": nanoseconds(row["since_ms"]),
        "finishedTime": nanoseconds(row["since_ms"]),
        "applicationState": row["state"],
        "user": row["user"],
        "groups": row["groups"],
        "rejectedMessage": row["reason"],
        "stateLog": [{"time": nanoseconds(row["since_ms"]), "applicationState": row["state"]}],
        "maxRequestPriority": NOTHING_PENDING,
    }
    return without_empty(shown)


def by_age(place: Place, allocations: Iterable[Row]) -> list[Json]:
    """The oldest first."""
    return [allocation(place, one) for one in sorted(allocations, key=lambda row: (row["since_ms"], row["uuid"]))]


def _task_group(row: Row) -> Json:
    shown = {
        "taskGroupName": row["name"],
        "count": row["count"],
        "minResource": row["min_resource"],
        "replaced": row["replaced"],
        "timedout": row["timed_out"],
    }
    return without_empty(shown)


def ask(place: Place, row: Row) -> Json:
    shown = {
        "allocationKey": row["key"],
        "allocationTags": row["tags"],
        "requestTime": nanoseconds(row["since_ms"]),
        "resource": row["resource"],
        "pendingCount": row["pending"],
        "priority": str(row["priority"]),
        "requiredNodeId": row["required_node"],
        "applicationId": row["application"],
        "partition": place.shown,
        "placeholder": row["placeholder"],
        "taskGroupName": row["task_group"],
        "triggeredPreemption": row["preempted_at_ms"] > 0,
    }
    return without_empty(shown)


def allocation(place: Place, row: Row) -> Json:
    """One that the RM has reported was requested when it came."""
    requested_ms = row["requested_ms"] or row["since_ms"]
    shown = {
        "allocationKey": row["key"],
        "allocationTags": row["tags"],
        "requestTime": nanoseconds(requested_ms),
        "allocationTime": nanoseconds(row["since_ms"]),
        "allocationDelay": nanoseconds(row["since_ms"] - requested_ms),
        "uuid": row["uuid"],
        "resource": row["resource"],
        "priority": str(row["priority"]),
        "nodeId": row["node"],
        "applicationId": row["application"],
        "partition": place.shown,
        "placeholder": row["placeholder"],
        "placeholderUsed": bool(row["replaced"]),
        "taskGroupName": row["task_group"],
        "preempted": row["releasing"] == PREEMPTED,
    }
    if place.newest:
        shown["allocationID"] = row["uuid"]
    return without_empty(shown, *(("allocationDelay",) if row["requested_ms"] else ()))
