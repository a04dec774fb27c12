"""Finds the queue of an application (001, Placement Rules; semantics section 5).

Rules are tried in order. The first one succeeds whose queue exists as a leaf, or may be created, and to which the user
may submit. The result names the queues to create. An application that no rule places goes to DEFAULT_QUEUE, where that
exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remuda_proto.bounds import QUEUE_LEVELS, joined, shown
from remuda_proto.constants import RECOVERY_QUEUE as RECOVERY_QUEUE
from remuda_proto.names import QUEUE, RECOVERY_NAME

from ..settings import PartitionSettings, PlacementRule, QueueSettings
from . import acl
from .placement_rules import RULES, Applicant, filter_passes

FORCE_CREATE_TAG = "application.create.force"
DEFAULT_QUEUE = "root.default"
WITHOUT_RULES = (PlacementRule("provided"),)
_DEFAULT = PlacementRule("fixed", value=DEFAULT_QUEUE)


class QueueView(Protocol):
    """The fields of an existing queue that placement reads. The queues of the state have them."""

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
    """`missing`: paths of the queues to create, parents first. The last of them is `queue`."""

    queue: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotPlaced:
    reason: str


def place(settings: PartitionSettings, queues: Queues, who: Applicant, *, runs: bool = False) -> Placed | NotPlaced:
    """Place an application. `queues`: the existing queues by path. `runs`: its work runs already, so the default
    queue is not for it."""
    reasons: dict[str, str] = {}  # of the paths that were tried
    without_result = []
    for rule in settings.placement_rules or WITHOUT_RULES:
        path = _apply(rule, queues, who)
        if isinstance(path, NotPlaced):
            without_result.append(f"{rule.name}: {path.reason}")
            continue
        found = _check(path, rule, queues, who)
        if isinstance(found, Placed):
            return found
        reasons.setdefault(path, f"{rule.name}: {found.reason}")
    if who.tags.get(FORCE_CREATE_TAG, "").lower() == "true":
        return to_recovery_queue(queues)
    if DEFAULT_QUEUE in queues and not runs:
        found = _check(DEFAULT_QUEUE, _DEFAULT, queues, who)
        if isinstance(found, Placed):
            return found
        reasons.setdefault(DEFAULT_QUEUE, f"default: {found.reason}")
    if not settings.placement_rules and without_result:
        hint = "" if DEFAULT_QUEUE in queues else f": expected a queue, a rule in placementrules, or {DEFAULT_QUEUE}"
        return NotPlaced(joined([f"the application names no queue, and there are no rules{hint}", *reasons.values()]))
    return NotPlaced(f"no placement rule matched: {joined(reasons.values() or without_result)}")


def to_recovery_queue(queues: Queues) -> Placed:
    """Place an application whose work runs, and that no rule places."""
    return Placed(RECOVERY_QUEUE, () if RECOVERY_QUEUE in queues else (RECOVERY_QUEUE,))


def _apply(rule: PlacementRule, queues: Queues, who: Applicant) -> str | NotPlaced:
    """The full path of the queue that the rule names, or why it names none. Raises KeyError for an unknown rule, which
    `configure` refuses."""
    naming = RULES[rule.name]
    name = naming.name_of(rule, who)
    if not name:
        return NotPlaced(naming.lacking.format(value=shown(rule.value)))
    if not filter_passes(rule.filter, rule.name, who):
        return NotPlaced(f"the filter leaves out user {shown(who.user)}")
    name = name.lower()
    if naming.may_be_a_path and (name == "root" or name.startswith("root.")):
        return name
    parts = name.split(".") if naming.has_levels else [name.replace(".", "_dot_")]
    parent = "root"
    if rule.parent is not None:
        above = _apply(rule.parent, queues, who)
        if isinstance(above, NotPlaced):
            return NotPlaced(f"parent {rule.parent.name}: {above.reason}")
        if above in queues and queues[above].leaf:
            return NotPlaced(f"queue {above} is a leaf, nothing can be created below it")
        if above not in queues and not rule.parent.create:
            return NotPlaced(f"queue {shown(above)} does not exist")
        parent = above
    return ".".join([parent, *parts])


def _check(path: str, rule: PlacementRule, queues: Queues, who: Applicant) -> Placed | NotPlaced:
    if path.count(".") >= QUEUE_LEVELS:
        return NotPlaced(f"queue {shown(path)} has {path.count('.') + 1} levels, expected at most {QUEUE_LEVELS}")
    parts = path.split(".")
    if RECOVERY_NAME in parts:
        return NotPlaced(f"queue {shown(path)}: {RECOVERY_NAME} is kept for work that comes back after a restart")
    if parts[0] != "root" or len(parts) < 2 or not all(QUEUE.matches(part) for part in parts):
        return NotPlaced(f"queue {shown(path)} is not root and names of A-Z a-z 0-9 _ - : # / @ after it")
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
