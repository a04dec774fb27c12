"""The report of a preview, as plain values of bounded size: lists show their first rows, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from .. import facts
from ..commands import Configure
from ..core import Core
from ..decide.names import plain
from ..limits import PREVIEW_BYTES_PER_LIST
from ..settings import Configuration
from ..state import State
from . import over_quota, queue_changes
from .passes import Placement, Played, Victim, play
from .placements import Placements

Row = dict[str, Any]


def preview(core: Core, proposal: Configuration, unchanged: Played, passes: int, now_ms: int, rows: int) -> Row:
    """Configure the core, which is a copy, play `passes` passes and compare them with the `unchanged` ones, which were
    played without the proposal on another copy. Lists have at most so many `rows`."""
    state = core.state
    proposal = as_of_rm(state, proposal)
    settings, excesses, placements = queue_changes.taken(state), over_quota.excesses(state), Placements(state)
    decided = core.handle(Configure(proposal), now_ms)
    refused = next((fact.reason for fact in decided if isinstance(fact, facts.ConfigurationRefused)), "")
    head: Row = {"checksum": proposal.checksum, "refused": refused, "passes": passes}
    if refused:
        return head
    found = placements.changed()
    report: Row = {
        **head,
        "partitions": listed(queue_changes.partition_changes(settings, state), rows),
        "queues": _by_change(queue_changes.queue_changes(settings, state), rows),
        "over_quota": listed(over_quota.rows(excesses, over_quota.excesses(state)), rows),
        "placements": {**listed(found.rows, rows), "looked_at": found.looked_at, "of": found.of},
    }
    played = play(core, passes, now_ms)
    return {
        **report,
        "allocations": _both(played.placements, unchanged.placements, rows),
        "preemptions": _both(played.victims, unchanged.victims, rows),
        "by_queue": listed(compared(played, unchanged, ("partition", "queue")), rows),
        "by_application": listed(compared(played, unchanged, ("partition", "queue", "application")), rows),
    }


def as_of_rm(state: State, proposal: Configuration) -> Configuration:
    """With the compatibility and the timing that the RM's registration has set: they are not part of a text."""
    now = state.configuration
    return replace(
        proposal, compatibility=now.compatibility if now is not None else proposal.compatibility, timing=state.timing
    )


def listed(found: Sequence[Row], rows: int) -> Row:
    """The first rows, as many as fit into PREVIEW_BYTES_PER_LIST, and how many there are."""
    shown: list[msgspec.Raw] = []
    size = 0
    for row in found[:rows]:
        encoded = msgspec.json.encode(row)
        size += len(encoded)
        if size > PREVIEW_BYTES_PER_LIST:
            break
        shown.append(msgspec.Raw(encoded))
    return {"total": len(found), "rows": shown}


def _by_change(found: list[Row], rows: int) -> Row:
    """The changes with their counts. Ends come first, then changes."""
    order = {"removed": 0, "draining": 1, "changed": 2, "restored": 3, "added": 4}
    counts = Counter(row["change"] for row in found)
    return {
        **listed(sorted(found, key=lambda row: order[row["change"]]), rows),
        "counts": {change: counts[change] for change in order},
    }


def _both(played: Sequence[Placement | Victim], unchanged: Sequence[Placement | Victim], rows: int) -> Row:
    named = [_row(one) for one in played[:rows]]
    return {**listed(named, rows), "total": len(played), "without": len(unchanged)}


def _row(one: Placement | Victim) -> Row:
    row: Row = msgspec.to_builtins(one)
    return {**row, "partition": plain(one.partition)}


def compared(played: Played, unchanged: Played, names: tuple[str, ...]) -> list[Row]:
    """Allocations and preemptions by these fields, with the change and `_without`; the largest differences first."""
    counts = {
        "allocated": _counted(played.placements, names),
        "allocated_without": _counted(unchanged.placements, names),
        "preempted": _counted(played.victims, names),
        "preempted_without": _counted(unchanged.victims, names),
    }
    keys = {key for counted in counts.values() for key in counted}
    found = [
        {
            **dict(zip(names, (plain(key[0]), *key[1:]), strict=True)),
            **{what: counted[key] for what, counted in counts.items()},
        }
        for key in sorted(keys)
    ]
    return sorted(found, key=_difference, reverse=True)


def _counted(found: Iterable[Placement | Victim], names: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(getattr(one, name) for name in names) for one in found)


def _difference(row: Row) -> int:
    return abs(int(row["allocated"]) - int(row["allocated_without"])) + abs(
        int(row["preempted"]) - int(row["preempted_without"])
    )
