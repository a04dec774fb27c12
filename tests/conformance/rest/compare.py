"""Compares two answers to one request: status, headers, and the body key by key and type by type.

Values are equal where they mean the same: times and UUIDs are those of a run, an amount of 0 is no amount, and lists
that the reference makes from maps have no order. `events` and `samples` say what counts of event records and metrics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from .events import in_events
from .recordings import Answer
from .samples import samples_of

HEADERS: Final = (
    "Content-Type", "Location", "Allow", "Access-Control-Allow-Origin", "Access-Control-Allow-Methods",
    "Access-Control-Allow-Headers", "Access-Control-Allow-Credentials", "X-Content-Type-Options",
)  # fmt: skip
OF_THE_RUN: Final = {
    "timestamp", "time", "startTime", "submissionTime", "finishedTime", "requestTime", "allocationTime",
    "allocationDelay", "lastStateTransitionTime", "timestampNano", "uuid", "InstanceUUID",
}  # fmt: skip
AMOUNTS: Final = {
    "pendingResource", "maxResource", "guaranteedResource", "allocatedResource", "preemptingResource", "usedResource",
    "maxUsedResource", "absUsedCapacity", "capacity", "usedCapacity", "utilization", "allocated", "occupied",
    "available", "utilized", "resource", "minResource", "Resources",
}  # fmt: skip
# Amounts in an object: {"Resources": {...}}.
USAGE: Final = {"resourceUsage", "maxResources"}
# The fields that identify an element of a list without order.
IDENTITIES: Final = (
    ("applicationID",), ("nodeID",), ("queuename",), ("queuePath",), ("userName",), ("groupName",),
    ("taskGroupName", "count"), ("allocationKey", "nodeId"), ("allocationKey", "applicationId"),
    ("clusterId", "name"), ("partitionName",),
    ("clusterName", "partition"),
    ("partition", "utilizations"), ("rmId",),
)  # fmt: skip
UNORDERED_NAMES: Final = {"runningApplications", "applications", "reservations", "nodeNames", "allocatingAcceptedApps"}
FAMILY: Final = re.compile(r"^# TYPE (\S+) (\S+)", re.MULTILINE)
RECORDS: Final = "EventRecords"
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """`ours`, `theirs` None: not there."""

    path: Path
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{'/'.join(self.path)}: ours {_short(self.ours)}, theirs {_short(self.theirs)}"


def _short(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, sort_keys=True)[:300]


def differences(ours: Answer, theirs: Answer) -> list[Difference]:
    found = []
    if ours.status != theirs.status:
        found.append(Difference(("status",), ours.status, theirs.status))
    pairs = ((name, ours.header(name), theirs.header(name)) for name in HEADERS)
    found += [Difference(("headers", name), one or None, other or None) for name, one, other in pairs if one != other]
    return found + list(_walk(("body",), _body(ours), _body(theirs)))


def _body(answer: Answer) -> Any:
    """As data, where it is some."""
    if answer.body is not None:
        return answer.body
    kind = answer.header("Content-Type")
    if "yaml" in kind:
        return yaml.safe_load(answer.text)
    if "version=0.0.4" in kind:
        return {"families": dict(FAMILY.findall(answer.text)), "samples": samples_of(answer.text)}
    return answer.text


def _walk(path: Path, ours: Any, theirs: Any) -> Iterator[Difference]:
    name = path[-1]
    if isinstance(ours, Mapping) or isinstance(theirs, Mapping):
        if name in AMOUNTS:
            ours, theirs = _amounts(ours), _amounts(theirs)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            for key in sorted({*ours, *theirs}):
                one, other = ours.get(key), theirs.get(key)
                if key == RECORDS:
                    yield from (Difference((*path, key, *found), *each) for found, *each in in_events(one, other))
                    continue
                if key in AMOUNTS:
                    one, other = _amounts(one), _amounts(other)
                elif key in USAGE:
                    one, other = _of_usage(one), _of_usage(other)
                yield from _walk((*path, key), one, other)
            return
    if isinstance(ours, list) and isinstance(theirs, list):
        yield from _lists(path, ours, theirs)
    elif name in OF_THE_RUN and type(ours) is type(theirs):
        return
    elif ours != theirs or (type(ours) is not type(theirs) and not _numbers(ours, theirs)):
        yield Difference(path, ours, theirs)


def _numbers(*values: Any) -> bool:
    """JSON knows one kind of number."""
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _amounts(value: Any) -> Any:
    """Amounts without zeros; None is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {key: amount for key, amount in value.items() if amount != 0}


def _of_usage(value: Any) -> Any:
    """None: no amounts."""
    return None if isinstance(value, Mapping) and not _amounts(value.get("Resources")) and len(value) <= 1 else value


def _lists(path: Path, ours: list[Any], theirs: list[Any]) -> Iterator[Difference]:
    if path[-1] in UNORDERED_NAMES and all(isinstance(one, str) for one in (*ours, *theirs)):
        ours, theirs = sorted(ours), sorted(theirs)
    mine, other = _identified(ours), _identified(theirs)
    if mine is not None and other is not None:
        for key in sorted({*mine, *other}):
            yield from _walk((*path, f"[{key}]"), mine.get(key), other.get(key))
        return
    for number in range(max(len(ours), len(theirs))):
        one = ours[number] if number < len(ours) else None
        two = theirs[number] if number < len(theirs) else None
        yield from _walk((*path, f"[{number}]"), one, two)


def _identified(elements: list[Any]) -> dict[str, Any] | None:
    """By identity; None: an order, or no identity. Equal allocations of one ask are numbered."""
    found: dict[str, Any] = {}
    for element in elements:
        if not isinstance(element, Mapping):
            return None
        fields = next((names for names in IDENTITIES if all(name in element for name in names)), None)
        if fields is None:
            return None
        key = " ".join(str(element[name]) for name in fields if name != "utilizations")
        number = sum(known.partition("#")[0] == key for known in found)
        found[f"{key}#{number}" if number else key] = element
    return found
