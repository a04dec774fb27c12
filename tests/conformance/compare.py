"""Compares two answers to one scenario (FORMAT.md section 5).

Both are in the form of a trace. An answer is first reduced to what is meaningful: resources without zeros, UUIDs as
"the nth allocation of this key", lists in an order of their own. Then `differences` walks both, step by step.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

from .recording import Json

FINAL: Final = -1  # the number of the step that is the dump at the end
Path = tuple[str, ...]
Fields = Mapping[str, Callable[[Any], Any]]  # of an object: name, and how the value is read


@dataclass(frozen=True)
class Difference:
    """`path`: where in the step; `ours` and `theirs` None: not there."""

    step: int
    path: Path
    ours: Any
    theirs: Any

    def where(self) -> str:
        return f"{'final' if self.step == FINAL else f'step {self.step}'}: {'/'.join(self.path)}"

    def __str__(self) -> str:
        return f"{self.where()}: ours {show(self.ours)}, theirs {show(self.theirs)}"


def show(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, sort_keys=True)


# Names for allocations: UUIDs mean nothing.


def with_names(trace: Json, in_any_order: bool = False) -> Json:
    """Replaces every UUID by KEY#n: the nth allocation of that key. `in_any_order`: allocations of one step and key are
    numbered by node, not in the order received."""
    return dict(_renamed(trace, names_of(trace, in_any_order)))


def names_of(trace: Json, in_any_order: bool = False) -> dict[str, str]:
    """UUID -> KEY#n."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for step in [*trace["steps"], {"dump": trace.get("final")}]:
        allocated = [
            new
            for callback in step.get("callbacks", ())
            for new in (callback["msg"].get("new") or () if callback["cb"] == "allocation" else ())
        ]
        if in_any_order:
            allocated.sort(key=lambda new: str(new.get("nodeID", "")))
        for new in allocated:
            _name(names, counts, new.get("UUID"), new.get("allocationKey", ""))
        for allocation in _allocations_of(step.get("dump")):
            _name(names, counts, allocation.get("uuid"), allocation.get("allocationKey", ""))
    for step in trace["steps"]:  # what the RM has reported is in no callback, and need not be in a dump
        for event in step.get("events") or ():
            if event.get("eventChangeDetail") == "APP_ALLOC":
                _name(names, counts, event.get("referenceID"), "reported")
    return names


def _name(names: dict[str, str], counts: Counter[str], uuid: str | None, key: str) -> None:
    if uuid and uuid not in names:
        names[uuid] = f"{key}#{counts[key]}"
        counts[key] += 1


def _allocations_of(dump: Json | None) -> Iterator[Json]:
    for partition in ((dump or {}).get("partitions") or {}).values():
        for application in partition.get("applications") or ():
            yield from application.get("allocations") or ()


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


# One step


def differences(ours: Json, theirs: Json, in_any_order: bool = False) -> list[Difference]:
    """Compares two traces, in the order of the steps. `in_any_order`: the order of the allocation callbacks of one step
    means nothing."""
    found: list[Difference] = []
    if ("error" in ours["registration"]) != ("error" in theirs["registration"]):
        found.append(Difference(0, ("registration",), ours["registration"], theirs["registration"]))
    ours, theirs = with_names(ours, in_any_order), with_names(theirs, in_any_order)
    for number, (mine, other) in enumerate(zip(ours["steps"], theirs["steps"], strict=True)):
        found += (Difference(number, *each) for each in _in_step(mine, other, in_any_order))
    found += (Difference(FINAL, ("dump", *path), *each) for path, *each in in_dump(ours["final"], theirs["final"]))
    return found


Found = tuple[Path, Any, Any]


def _in_step(ours: Json, theirs: Json, in_any_order: bool) -> Iterator[Found]:
    for name, read in STEP.items():
        mine, other = read(ours), read(theirs)
        if mine != other:
            yield (name,), mine, other
    for kind in ("allocation", "application", "node"):
        yield from _in_callbacks(kind, ours["callbacks"], theirs["callbacks"], in_any_order)
    yield from _in_events(ours.get("events") or (), theirs.get("events") or ())
    if "dump" in ours or "dump" in theirs:
        for path, *each in in_dump(ours.get("dump"), theirs.get("dump")):
            yield ("dump", *path), *each


STEP: Final[dict[str, Callable[[Json], Any]]] = {
    "op": lambda step: step["op"],
    "error": lambda step: bool(step.get("error")),
    "productiveCycles": lambda step: step.get("productiveCycles", 0),
}


# Callbacks: elements in the order received; those of one message have none.


def groups_of(kind: str, callbacks: Iterable[Json]) -> list[list[Json]]:
    """The elements of each message, reduced to what is meaningful."""
    return [
        [
            {"what": name, **{key: read(item.get(key)) for key, read in fields.items()}}
            for name, fields in ELEMENTS[kind].items()
            for item in callback["msg"].get(name) or ()
        ]
        for callback in callbacks
        if callback["cb"] == kind
    ]


def _in_callbacks(kind: str, ours: Iterable[Json], theirs: Iterable[Json], in_any_order: bool) -> Iterator[Found]:
    mine = [item for group in groups_of(kind, ours) for item in group]
    groups = groups_of(kind, theirs)
    if in_any_order:  # as if all came in one message
        groups = [sorted((item for group in groups for item in group), key=show)]
        mine.sort(key=show)
    if kind == "application":  # what happens to one application does not depend on another
        yield from _by_application(mine, [item for group in groups for item in group])
        return
    yield from _aligned(f"{kind} callback", _like(mine, groups), [item for group in groups for item in group])


def _like(ours: list[Json], groups: list[list[Json]]) -> list[Json]:
    """Ours, in the order in which theirs has what is in one message: there, order means nothing."""
    ordered: list[Json] = []
    for group in groups:
        part = ours[len(ordered) : len(ordered) + len(group)]
        wanted = {show(item): place for place, item in enumerate(group)}
        if sorted(map(show, part)) == sorted(map(show, group)):
            part.sort(key=lambda item: wanted[show(item)])
        ordered += part
    return ordered + ours[len(ordered) :]


def _aligned(what: str, ours: list[Json], theirs: list[Json]) -> Iterator[Found]:
    """The additions and removals that turn one into the other."""
    matcher = SequenceMatcher(None, [show(item) for item in ours], [show(item) for item in theirs], autojunk=False)
    for _, start, end, other_start, other_end in (code for code in matcher.get_opcodes() if code[0] != "equal"):
        yield from (((what, str(number)), ours[number], None) for number in range(start, end))
        yield from (((what, str(number)), None, theirs[number]) for number in range(other_start, other_end))


def _by_application(ours: Iterable[Json], theirs: Iterable[Json]) -> Iterator[Found]:
    lives: tuple[dict[str, list[str]], dict[str, list[str]]] = (defaultdict(list), defaultdict(list))
    for life, items in zip(lives, (ours, theirs), strict=True):
        for item in items:
            life[item["applicationID"]].append(item.get("state") or item["what"])
    for application in sorted(lives[0].keys() | lives[1].keys()):
        mine, other = lives[0].get(application), lives[1].get(application)
        if mine != other:
            yield ("application callbacks", application), mine, other


def text(value: Any) -> str:
    return str(value or "")


def amounts(value: Any) -> dict[str, int]:
    """A resource, of a message or of a REST object, without its zeros."""
    if not isinstance(value, Mapping):
        return {}
    value = value.get("resources", value.get("Resources", value)) or {}
    read = {
        name: int(amount.get("value", 0)) if isinstance(amount, Mapping) else amount for name, amount in value.items()
    }
    return {name: amount for name, amount in sorted(read.items()) if amount}


# The reference never says priority and partition of a new allocation; its dumps have the priority.
ALLOCATION: Final[Fields] = {
    "UUID": text, "allocationKey": text, "applicationID": text, "nodeID": text, "resourcePerAlloc": amounts,
    "placeholder": bool, "taskGroupName": text,
}  # fmt: skip
RELEASE: Final[Fields] = {"UUID": text, "applicationID": text, "allocationKey": text, "terminationType": text}
ELEMENTS: Final[dict[str, dict[str, Fields]]] = {
    "allocation": {
        "new": ALLOCATION,
        "released": RELEASE,
        "releasedAsks": {"applicationID": text, "allocationKey": text, "terminationType": text},
        "rejected": {"allocationKey": text, "applicationID": text},
        "rejectedAllocations": {"allocationKey": text, "applicationID": text},
    },
    "application": {
        "accepted": {"applicationID": text},
        "rejected": {"applicationID": text},
        "updated": {"applicationID": text, "state": text},
    },
    "node": {"accepted": {"nodeID": text}, "rejected": {"nodeID": text}},
}


# Events: which things happened, not in which order and how often


EVENT: Final = ("type", "eventChangeType", "eventChangeDetail", "objectID", "referenceID")


def events_of(events: Iterable[Json]) -> set[tuple[str, ...]]:
    """REQUEST events are left out: why an ask waits is free text."""
    return {
        tuple(text(event.get(name)) for name in EVENT) for event in events if event.get("type", "REQUEST") != "REQUEST"
    }


def _in_events(ours: Iterable[Json], theirs: Iterable[Json]) -> Iterator[Found]:
    mine, other = events_of(ours), events_of(theirs)
    for event in sorted(mine - other):
        yield ("event",), list(event), None
    for event in sorted(other - mine):
        yield ("event",), None, list(event)


# Dumps


def in_dump(ours: Json | None, theirs: Json | None) -> Iterator[Found]:
    if ours is None or theirs is None:
        if (ours is None) != (theirs is None):
            yield (), ours and "a dump", theirs and "a dump"
        return
    yield from _in(meaningful(ours), meaningful(theirs), ())


def meaningful(dump: Json) -> Json:
    """A dump as maps by name, with what FORMAT.md lists, and nothing that is empty."""
    partitions = dump.get("partitions") or {}
    return _without_empty(
        {
            "partitions": {name: _partition(partition) for name, partition in partitions.items()},
            "users": {user["userName"]: _usage(user["queues"]) for user in dump.get("users") or ()},
            "groups": {group["groupName"]: _usage(group["queues"]) for group in dump.get("groups") or ()},
        }
    )


def _partition(partition: Json) -> Json:
    # The reference keeps no queue with a rejected application, or not always.
    rejected = {name: read for name, read in APPLICATION.items() if name != "queueName"}
    listed = {"applications": APPLICATION, "completedApplications": APPLICATION, "rejectedApplications": rejected}
    return {
        "queues": _queues(partition["queues"]),
        "nodes": {node["nodeID"]: _reduced(node, NODE) for node in partition.get("nodes") or ()},
        **{
            name: {app["applicationID"]: _reduced(app, fields) for app in partition.get(name) or ()}
            for name, fields in listed.items()
        },
    }


def _queues(queue: Json) -> Json:
    found = {queue["queuename"]: _reduced(queue, QUEUE)}
    for child in queue.get("children") or ():
        found |= _queues(child)
    return found


def _usage(queue: Json) -> Json:
    found = {queue["queuePath"]: _reduced(queue, USAGE)}
    for child in queue.get("children") or ():
        found |= _usage(child)
    return found


def _reduced(value: Json, fields: Mapping[str, Callable[[Any], Any]]) -> Json:
    return {name: read(value.get(name)) for name, read in fields.items()}


def as_is(value: Any) -> Any:
    return value


def by(*keys: str, **fields: Callable[[Any], Any]) -> Callable[[Any], Json]:
    """Of a list of objects: a map by these keys, each reduced to the fields."""

    def read(value: Any) -> Json:
        found: Json = {}
        for item in value or ():
            name = " ".join(str(item.get(key, "")) for key in keys)
            found[name] = _reduced(item, fields)
        return found

    return read


def names(value: Any) -> list[str]:
    return sorted(value or ())


ALLOCATIONS: Final = by(
    "uuid", allocationKey=text, applicationId=text, nodeId=text, priority=lambda value: int(value or 0),
    resource=amounts, placeholder=bool, taskGroupName=text,
)  # fmt: skip
QUEUE: Final[Fields] = {
    "status": text, "allocatedResource": amounts, "pendingResource": amounts, "guaranteedResource": amounts,
    "maxResource": amounts, "preemptingResource": amounts, "runningApps": as_is, "maxRunningApps": as_is,
    "currentPriority": as_is, "isLeaf": as_is, "isManaged": as_is, "properties": as_is, "allocatingAcceptedApps": names,
    "template": lambda value: value and _reduced(value, TEMPLATE),
}  # fmt: skip
TEMPLATE: Final[Fields] = {
    "maxRunningApps": as_is,
    "properties": as_is,
    "guaranteedResource": amounts,
    "maxResource": amounts,
}
APPLICATION: Final[Fields] = {
    "applicationState": text, "queueName": text, "user": text, "groups": names,
    "stateLog": lambda value: [entry["applicationState"] for entry in value or ()],
    "usedResource": amounts, "maxUsedResource": amounts, "pendingResource": amounts,
    "requests": by("allocationKey", pendingCount=as_is, priority=lambda value: int(value or 0), resource=amounts,
                   placeholder=bool, taskGroupName=text, requiredNodeId=text),
    "allocations": ALLOCATIONS, "reservations": names,
    "placeholderData": by("taskGroupName", count=as_is, minResource=amounts, replaced=as_is, timedout=as_is),
}  # fmt: skip
NODE: Final[Fields] = {
    "capacity": amounts, "occupied": amounts, "allocated": amounts, "available": amounts, "utilized": amounts,
    "schedulable": as_is, "reservations": names, "allocations": ALLOCATIONS,
}  # fmt: skip
USAGE: Final[Fields] = {
    "resourceUsage": amounts, "runningApplications": names, "maxResources": amounts, "maxApplications": as_is,
}  # fmt: skip


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in ({}, [], "", None, False, 0)}
    return value


def _in(ours: Any, theirs: Any, path: Path) -> Iterator[Found]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _in(ours.get(key), theirs.get(key), (*path, key))
    elif ours != theirs:
        yield path, ours, theirs
