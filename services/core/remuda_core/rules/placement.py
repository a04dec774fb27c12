"""Which queue an application goes to (001, Placement Rules; semantics section 5).

Rules are tried in order; the first that names a queue which exists as a leaf, or may be created as one, and to which
the user may submit, wins. The result says which queues have to be made for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remuda_proto import patterns
from remuda_proto.bounds import QUEUE_LEVELS, joined, shown
from remuda_proto.names import QUEUE

from ..settings import PartitionSettings, PlacementFilter, PlacementRule, QueueSettings
from . import acl

FORCE_CREATE_TAG = "application.create.force"
RECOVERY_QUEUE = "root.@recovery@"
WITHOUT_RULES = (PlacementRule("provided"),)


@dataclass(frozen=True, slots=True)
class Applicant:
    """The part of an application that placement looks at."""

    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Mapping[str, str]


class QueueView(Protocol):
    """What placement needs to know of the queues there are; the state's queues have this shape."""

    @property
    def leaf(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def settings(self) -> QueueSettings: ...
    @property
    def path_to_root(self) -> Sequence[QueueView]: ...


Queues = Mapping[str, QueueView]


@dataclass(frozen=True, slots=True)
class Placed:
    """`missing`: paths of the queues to be made, parents first; the last of them is `queue` itself."""

    queue: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotPlaced:
    reason: str


def place(settings: PartitionSettings, queues: Queues, who: Applicant) -> Placed | NotPlaced:
    """`queues`: path -> Queue of the partition's state."""
    reasons = []
    for rule in settings.placement_rules or WITHOUT_RULES:
        path = _apply(rule, queues, who)
        if path is None:
            continue
        found = _check(path, rule, queues, who)
        if isinstance(found, Placed):
            return found
        reasons.append(f"{rule.name}: {found.reason}")
    if who.tags.get(FORCE_CREATE_TAG, "").lower() == "true":
        return Placed(RECOVERY_QUEUE, () if RECOVERY_QUEUE in queues else (RECOVERY_QUEUE,))
    return NotPlaced("no placement rule matched" + (": " + joined(reasons) if reasons else ""))


def _apply(rule: PlacementRule, queues: Queues, who: Applicant) -> str | None:
    """The full path a rule makes of the application, None if it does not match."""
    name = _name(rule, who)
    if not name or not _filter_passes(rule.filter, rule.name, who):
        return None
    name = name.lower()
    if rule.name in ("provided", "fixed") and (name == "root" or name.startswith("root.")):
        return name
    if rule.name == "fixed":
        parts = name.split(".")
    else:
        parts = [name.replace(".", "_dot_")]
    parent = "root"
    if rule.parent is not None:
        above = _apply(rule.parent, queues, who)
        if above is None or (above in queues and queues[above].leaf):
            return None
        if above not in queues and not rule.parent.create:
            return None
        parent = above
    return ".".join([parent, *parts])


def _name(rule: PlacementRule, who: Applicant) -> str | None:
    match rule.name:
        case "provided":
            return who.queue
        case "user":
            return who.user
        case "primarygroup":
            return who.groups[0] if who.groups else None
        case "secondarygroup":
            return next((g for g in who.groups[1:] if _group_passes(rule.filter, g)), None)
        case "fixed":
            return rule.value
        case "tag":
            return who.tags.get(rule.value)
        case "applicationtype":
            return who.tags.get("application.type")
    raise AssertionError(f"unknown placement rule {shown(rule.name)} in a verified configuration")


def _check(path: str, rule: PlacementRule, queues: Queues, who: Applicant) -> Placed | NotPlaced:
    if path.count(".") >= QUEUE_LEVELS:
        return NotPlaced(f"queue {shown(path)} has {path.count('.') + 1} levels, expected at most {QUEUE_LEVELS}")
    parts = path.split(".")
    if parts[0] != "root" or len(parts) < 2 or not all(QUEUE.matches(part) for part in parts):
        return NotPlaced(f"queue {shown(path)} is not root and names of A-Z a-z 0-9 _ - after it")
    paths = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    existing = [p for p in paths if p in queues]
    nearest = queues[existing[-1]]
    missing = tuple(paths[len(existing) :])
    if missing and not rule.create:
        return NotPlaced(f"queue {path} does not exist")
    if missing and nearest.leaf:
        return NotPlaced(f"queue {existing[-1]} is a leaf, nothing can be created below it")
    if not missing and not nearest.leaf:
        return NotPlaced(f"queue {path} is not a leaf")
    leaf = next((p for p in existing[:-1] if queues[p].leaf), None)
    if leaf is not None:
        return NotPlaced(f"queue {leaf} is a leaf, what is below it goes")
    if any(q.draining for q in nearest.path_to_root):
        return NotPlaced(f"queue {existing[-1]} is draining")
    if not acl.may_submit((q.settings for q in nearest.path_to_root), who.user, who.groups):
        return NotPlaced(f"user {shown(who.user)} may not submit to {path}")
    return Placed(path, missing)


def _filter_passes(rule_filter: PlacementFilter | None, rule: str, who: Applicant) -> bool:
    if rule_filter is None or not (rule_filter.users or rule_filter.groups) or rule == "secondarygroup":
        return True
    named = _matches(rule_filter.users, who.user) or any(_matches(rule_filter.groups, group) for group in who.groups)
    return named == (rule_filter.type != "deny")


def _group_passes(rule_filter: PlacementFilter | None, group: str) -> bool:
    if rule_filter is None or not rule_filter.groups:
        return True
    return _matches(rule_filter.groups, group) == (rule_filter.type != "deny")


def _matches(names: tuple[str, ...], name: str) -> bool:
    """One entry is a regular expression, several are a list."""
    if len(names) == 1:
        return patterns.found(names[0], name)
    return name in names
