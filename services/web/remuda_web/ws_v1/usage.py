"""Usage of users and groups as trees of queues, with the limits that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from remuda_web.ws_v1.amounts import add
from remuda_web.ws_v1.applications import ENDED, NEW, RUNNING
from remuda_web.ws_v1.go_json import Json, without_empty

USER: Final = "user"
GROUP: Final = "group"
ANYONE: Final = "*"
Row = Mapping[str, Any]


def trees(kind: str, applications: Sequence[Row], queues: Iterable[Row]) -> list[Json]:
    """One for each user (or group) that uses something, or that a limit names, and for each user who has asked. The
    limit for all other users is in none."""
    found: dict[str, dict[str, Json]] = {}
    counted = [row for row in applications if _name(kind, row) and _counts(row)]
    for row in counted:
        for used in _path(found, _name(kind, row), row["queue"]):
            used["runningApplications"].append(row["id"])
            add(used["resourceUsage"], row["allocated"])
            add(used["resourceUsage"], row["allocated_placeholder"])
    if kind == USER:
        for row in applications:
            if row["state"] not in (NEW, *ENDED):
                _path(found, row["user"], row["queue"])
    for queue in queues:
        for limit in queue["limits"]:
            for name in limit["users" if kind == USER else "groups"]:
                if name != ANYONE or kind == GROUP:
                    _path(found, name, queue["path"])[-1].update(
                        maxResources=limit["max_resources"], maxApplications=limit["max_applications"]
                    )
    return [_shown(kind, name, held, applications) for name, held in sorted(found.items())]


def _name(kind: str, row: Row) -> str:
    return str(row["user"] if kind == USER else row["tracked_group"])


def _counts(row: Row) -> bool:
    return bool(row["allocations"]) or row["state"] in RUNNING


def _path(found: dict[str, dict[str, Json]], name: str, path: str) -> list[Json]:
    """The usage in each queue on the way from root to `path`."""
    parts = path.split(".")
    held = found.setdefault(name, {})
    return [
        held.setdefault(one, {"queuePath": one, "resourceUsage": {}, "runningApplications": []})
        for one in (".".join(parts[: end + 1]) for end in range(len(parts)))
    ]


def _shown(kind: str, name: str, held: Mapping[str, Json], applications: Sequence[Row]) -> Json:
    tree = _tree(held, "root")
    if kind == GROUP:
        running = held["root"]["runningApplications"]
        return without_empty({"groupName": name, "applications": running, "queues": tree})
    groups = {row["id"]: row["tracked_group"] for row in applications if row["user"] == name and row["tracked_group"]}
    return without_empty({"userName": name, "groups": groups, "queues": tree})


def _tree(held: Mapping[str, Json], path: str) -> Json:
    one = held[path]
    shown = {
        "queuePath": path,
        "resourceUsage": _resources(one["resourceUsage"]),
        "runningApplications": one["runningApplications"],
        "maxResources": _resources(one.get("maxResources", {})),
        "maxApplications": one.get("maxApplications", 0),
        "children": [_tree(held, child) for child in held if child.rpartition(".")[0] == path],
    }
    return without_empty(shown)


def _resources(amounts: Mapping[str, int]) -> Json:
    return {"Resources": dict(amounts)} if amounts else {}
