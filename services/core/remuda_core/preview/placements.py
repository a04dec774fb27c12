"""Applications that would be placed in another queue, or refused, if they were submitted anew.

The state holds the queue in which an application is, not the one that its request has named. Where the old rules lead
to that queue without a name, the request is taken for one without a name; otherwise for one that names the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..decide.names import plain
from ..limits import PREVIEWED_APPLICATIONS
from ..rules.placement import NotPlaced, Placed, place
from ..rules.placement_rules import Applicant
from ..state import Application, Partition, State

Row = dict[str, object]
# The inputs of placement: (queue it is in, user, groups, tags).
_Kind = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]


class Found(NamedTuple):
    """`looked_at` of all applications that have not ended: the oldest ones of each partition."""

    rows: list[Row]
    looked_at: int
    of: int


class Placements:
    """Made before the change. `changed` is called after it, on the same state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._looked_at = 0
        self._of = 0
        # By partition: each kind of application with its request as it is taken for, and where that leads now.
        self._before: dict[str, dict[_Kind, tuple[Applicant, str]]] = {}
        self._applications: list[tuple[Partition, Application, _Kind]] = []
        for partition in state.partitions.values():
            self._look(partition)

    def _look(self, partition: Partition) -> None:
        known = self._before.setdefault(partition.name, {})
        for application in partition.applications.values():
            if application.terminal:
                continue
            self._of += 1
            if self._looked_at >= PREVIEWED_APPLICATIONS:
                continue
            self._looked_at += 1
            kind = (application.queue.path, application.user, application.groups, _tags(application.tags))
            self._applications.append((partition, application, kind))
            if kind not in known:
                known[kind] = _as_before(partition, application)

    def changed(self) -> Found:
        after: dict[tuple[str, _Kind], tuple[str, str]] = {}
        rows: list[Row] = []
        for partition, application, kind in self._applications:
            applicant, was = self._before[partition.name][kind]
            outcome = after.get((partition.name, kind))
            if outcome is None:
                outcome = after[partition.name, kind] = _outcome(partition, applicant)
            queue, reason = outcome
            if queue != was:
                rows.append(
                    {
                        "partition": plain(partition.name),
                        "application": application.id,
                        "user": application.user,
                        "queue": application.queue.path,
                        "before": was,
                        "after": queue,
                        "outcome": "moved" if queue else "refused",
                        "reason": reason,
                    }
                )
        rows.sort(key=lambda row: row["outcome"] == "moved")  # refused ones first, in the order of submission
        return Found(rows, self._looked_at, self._of)


def _tags(tags: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(tags.items())


def _as_before(partition: Partition, application: Application) -> tuple[Applicant, str]:
    """The request for which the application is taken, and the queue to which it leads; empty: it is refused."""
    unnamed = Applicant("", application.user, application.groups, application.tags)
    if _outcome(partition, unnamed)[0] == application.queue.path:
        return unnamed, application.queue.path
    named = Applicant(application.queue.path, application.user, application.groups, application.tags)
    return named, _outcome(partition, named)[0]


def _outcome(partition: Partition, applicant: Applicant) -> tuple[str, str]:
    """The queue, or the reason why there is none."""
    if partition.draining:
        return "", f"partition {plain(partition.name)} is no longer configured"
    match place(partition.settings, partition.queues, applicant):
        case Placed(queue):
            return queue, ""
        case NotPlaced(reason):
            return "", reason
