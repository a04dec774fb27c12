"""The effects of a proposed configuration: it is applied to a copy of the state, and the next passes are played there,
beside the same passes without it (docs/adr/explanations-and-previews.md).

The report has plain values of bounded size: lists show their first rows, and how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from .. import facts
from ..commands import Configure
from ..core import Core
from ..decide.names import plain
from ..explain import Explanations
from ..limits import PREVIEW_BYTES_PER_LIST, PREVIEWED_APPLICATIONS, PREVIEWED_GROUPS
from ..rules.placement import NotPlaced, Placed, place
from ..rules.placement_rules import Applicant
from ..rules.topology import path_of, shown_path, wish_of
from ..settings import Configuration, PartitionSettings, QueueSettings, Settings
from ..state import Application, Node, Partition, PendingAsk, Queue, State, Tracker
from .play import Placement, Played, Victim, play

Row = dict[str, Any]


def preview(core: Core, proposal: Configuration, unchanged: Played, passes: int, now_ms: int, rows: int) -> Row:
    """Configure the core, which is a copy, play `passes` passes and compare them with the `unchanged` ones, which were
    played without the proposal on another copy. Lists have at most so many `rows`."""
    state = core.state
    proposal = as_of_rm(state, proposal)
    settings, excesses, placements = settings_of(state), excesses_of(state), Placements(state)
    decided = core.handle(Configure(proposal), now_ms)
    refused = next((fact.reason for fact in decided if isinstance(fact, facts.ConfigurationRefused)), "")
    head: Row = {"checksum": proposal.checksum, "refused": refused, "passes": passes}
    if refused:
        return head
    found, groups = placements.changed(), groups_waiting(state)
    report: Row = {
        **head,
        "partitions": listed(partition_changes(settings, state), rows),
        "queues": _by_change(queue_changes(settings, state), rows),
        "over_quota": listed(_excess_rows(excesses, excesses_of(state)), rows),
        "placements": {**listed(found.rows, rows), "looked_at": found.looked_at, "of": found.of},
    }
    played = play(core, passes, now_ms)
    return {
        **report,
        "allocations": _both(played.placements, unchanged.placements, rows),
        "preemptions": _both(played.victims, unchanged.victims, rows),
        "groups": listed(group_rows(core, groups, played, unchanged), rows),
        "by_queue": listed(compared(played, unchanged, ("partition", "queue")), rows),
        "by_application": listed(compared(played, unchanged, ("partition", "queue", "application")), rows),
    }


def as_of_rm(state: State, proposal: Configuration) -> Configuration:
    """Adds the compatibility and the timing that the RM's registration has set: they are not part of a text."""
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


# What becomes of groups that wait for a domain


class WaitingGroup(NamedTuple):
    """A group that wants something of the topology, with its pending asks, the oldest first. `level`: the coarsest one
    of which its members share a domain; empty: it requires none."""

    partition: str
    application: Application
    level: str
    asks: tuple[PendingAsk, ...]

    @property
    def keys(self) -> set[tuple[str, str, str]]:
        return {(self.partition, self.application.id, ask.ask.allocation_key) for ask in self.asks}


def groups_waiting(state: State) -> list[WaitingGroup]:
    """The groups with pending members, the oldest first. O(asks)."""
    found: dict[tuple[str, str, str], WaitingGroup] = {}
    for partition in state.partitions.values():
        for application in partition.applications.values():
            for ask in application.asks.values():
                fact = ask.ask
                wish = (
                    wish_of(fact.tags, application.tags, fact.task_group, fact.allocation_key) if ask.pending else None
                )
                if wish is not None:
                    key = (partition.name, application.id, wish.group)
                    known = found.get(key)
                    level = wish.required or wish.outer or wish.slice_level
                    asks = (*known.asks, ask) if known is not None else (ask,)
                    found[key] = WaitingGroup(partition.name, application, level, asks)
    return sorted(found.values(), key=lambda group: (group.asks[0].at_ms, group.asks[0].seq))


def group_rows(core: Core, groups: Sequence[WaitingGroup], played: Played, unchanged: Played) -> list[Row]:
    """A row for each group: the number of its members that are placed, and their domain, with the change and
    `_without`. Groups for which these differ come first. `reason`: why the other members wait in the end, of
    PREVIEWED_GROUPS."""
    with_change, without = _nodes_by_ask(core.state, played), _nodes_by_ask(core.state, unchanged)
    victims, victims_without = (
        Counter((one.partition, one.for_application, one.for_key) for one in some.victims)
        for some in (played, unchanged)
    )
    rows: list[Row] = []
    explanations = Explanations(core.state, core.index)
    for number, group in enumerate(groups):
        partition = core.state.partitions.get(group.partition)
        nodes = [node for key in group.keys for node in with_change.get(key, ())]
        nodes_without = [node for key in group.keys for node in without.get(key, ())]
        rest = next((ask for ask in group.asks if ask.pending), None)
        reason = ""
        if partition is not None and rest is not None and number < PREVIEWED_GROUPS:
            reason = next((one.reason for one in explanations.of(partition, rest)), "it waits for its turn")
        rows.append(
            {
                "partition": plain(group.partition),
                "queue": group.application.queue.path,
                "application": group.application.id,
                "key": group.asks[0].ask.allocation_key,
                "level": group.level,
                "waiting": len(nodes) + sum(ask.pending for ask in group.asks),
                "placed": len(nodes),
                "placed_without": len(nodes_without),
                "domain": _domain(partition, nodes),
                "domain_without": _domain(partition, nodes_without),
                "preempted": sum(victims[key] for key in group.keys),
                "preempted_without": sum(victims_without[key] for key in group.keys),
                "reason": reason,
            }
        )
    return sorted(rows, key=lambda row: all(row[name] == row[f"{name}_without"] for name in COMPARED))


COMPARED = ("placed", "domain", "preempted")


def _nodes_by_ask(state: State, played: Played) -> dict[tuple[str, str, str], list[Node]]:
    """The nodes on which repeats of each ask are placed."""
    found: dict[tuple[str, str, str], list[Node]] = {}
    for one in played.placements:
        partition = state.partitions.get(one.partition)
        node = partition.nodes.get(one.node) if partition is not None else None
        if node is not None:
            found.setdefault((one.partition, one.application, one.key), []).append(node)
    return found


def _domain(partition: Partition | None, nodes: Sequence[Node]) -> str:
    """The finest domain that has all of the nodes; empty: there is no node, or no such domain."""
    if partition is None or not nodes:
        return ""
    if all(node is nodes[0] for node in nodes):
        return nodes[0].id
    shared = path_of(partition.settings.topology, nodes[0].attributes)
    for node in nodes[1:]:
        path = path_of(partition.settings.topology, node.attributes)
        while shared != path[: len(shared)]:
            shared = shared[:-1]
    return shown_path(shared) if shared else ""


# Which queues and partitions are added, changed, drained, restored and removed


class _Queue(NamedTuple):
    leaf: bool
    managed: bool
    draining: bool
    settings: QueueSettings


class _Partition(NamedTuple):
    draining: bool
    settings: PartitionSettings


class Snapshot(NamedTuple):
    """The settings of all queues, by partition and path, and of all partitions. Values that never change."""

    partitions: Mapping[str, _Partition]
    queues: Mapping[tuple[str, str], _Queue]


def settings_of(state: State) -> Snapshot:
    return Snapshot(
        {name: _Partition(one.draining, one.settings) for name, one in state.partitions.items()},
        {
            (name, path): _Queue(queue.leaf, queue.managed, queue.draining, queue.settings)
            for name, one in state.partitions.items()
            for path, queue in one.queues.items()
        },
    )


def partition_changes(before: Snapshot, state: State) -> list[Row]:
    """A row for each partition with a change: its name, the change, and the changed fields."""
    rows: list[Row] = []
    for name, partition in state.partitions.items():
        was = before.partitions.get(name)
        head: Row = {"partition": plain(name)}
        if was is None:
            rows.append({**head, "change": "added", "fields": {}})
        elif partition.draining and not was.draining:
            rows.append({**head, "change": "draining", "fields": {}})
        elif was.draining and not partition.draining:
            rows.append({**head, "change": "restored", "fields": _fields(was.settings, partition.settings)})
        elif fields := _fields(was.settings, partition.settings):
            rows.append({**head, "change": "changed", "fields": fields})
    return rows


def queue_changes(before: Snapshot, state: State) -> list[Row]:
    """A row for each queue with a change: `added`, `changed`, `restored`, `draining` (removed when it is empty) or
    `removed` (it is empty already). Changed fields have their values before and after."""
    return [
        {"partition": plain(partition.name), "queue": path, "change": change, "fields": fields}
        for partition in state.partitions.values()
        for path, queue in partition.queues.items()
        for change, fields in (_change(before, partition, queue),)
        if change
    ]


def _change(before: Snapshot, partition: Partition, queue: Queue) -> tuple[str, Row]:
    was = before.queues.get((partition.name, queue.path))
    if was is None:
        return "added", {}
    if queue.draining and not was.draining:
        return "draining" if any(below.applications for below in queue.below()) else "removed", {}
    fields = _fields(was.settings, queue.settings)
    for name, then, now in (("leaf", was.leaf, queue.leaf), ("managed", was.managed, queue.managed)):
        if then != now:
            fields[name] = {"before": then, "after": now}
    if was.draining and not queue.draining:
        return "restored", fields
    return ("changed", fields) if fields else ("", {})


# Their queues are compared one by one; the root queue of a partition is a queue.
_ELSEWHERE = ("queues", "root", "name", "parent")


def _fields(was: Settings, now: Settings) -> Row:
    if was is now:
        return {}
    return {
        name: {"before": msgspec.to_builtins(then), "after": msgspec.to_builtins(value)}
        for name in now.__struct_fields__
        if name not in _ELSEWHERE and (then := getattr(was, name)) != (value := getattr(now, name))
    }


# Queues, users and groups that use more than a maximum or a limit allows: they get nothing new until they are below.
# Quota preemption may take something from queues later.

# In the place of a resource's name.
RUNNING_APPLICATIONS = "running applications"


class Place(NamedTuple):
    """The place of an excess: a queue, or a user or group in it. `kind` is queue, user or group, `name` that of the
    user or group."""

    partition: str
    queue: str
    kind: str
    name: str
    resource: str


class Excess(NamedTuple):
    used: int
    maximum: int


def excesses_of(state: State) -> dict[Place, Excess]:
    """All of them. O(queues + trackers)."""
    return dict(
        found
        for partition in state.partitions.values()
        for queue in partition.queues.values()
        for found in _of_queue(plain(partition.name), queue)
    )


def _of_queue(partition: str, queue: Queue) -> Iterator[tuple[Place, Excess]]:
    quotas: tuple[Queue | Tracker, ...] = (queue, *queue.trackers.values())
    for quota in quotas:
        whose = (quota.kind, quota.name) if isinstance(quota, Tracker) else ("queue", "")
        for name, maximum in quota.most.items():
            if (amount := quota.used.get(name, 0)) > maximum:
                yield Place(partition, queue.path, *whose, name), Excess(amount, maximum)
        if 0 < quota.most_running < quota.running:
            where = Place(partition, queue.path, *whose, RUNNING_APPLICATIONS)
            yield where, Excess(quota.running, quota.most_running)


def _excess_rows(before: dict[Place, Excess], after: dict[Place, Excess]) -> list[Row]:
    """Places that are over with the new configuration, and by how much; `over_before`: by how much with the old one.
    Those that were not come first, then the largest."""
    found: list[Row] = []
    for where, excess in after.items():
        was = before.get(where)
        found.append(
            {
                **where._asdict(),
                "used": excess.used,
                "max": excess.maximum,
                "over": excess.used - excess.maximum,
                "over_before": was.used - was.maximum if was is not None else 0,
            }
        )
    return sorted(found, key=_by_news)


def _by_news(row: Row) -> tuple[bool, float, str, str, str]:
    used, maximum = row["used"], row["max"]
    assert isinstance(used, int) and isinstance(maximum, int)
    share = used / maximum if maximum else float("inf")
    return row["over_before"] != 0, -share, str(row["queue"]), str(row["name"]), str(row["resource"])


# Applications that would be placed in another queue, or refused, if they were submitted anew

# The inputs of placement: (queue it is in, user, groups, tags).
_Kind = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]


class Found(NamedTuple):
    """`looked_at` of all applications that have not ended: the oldest ones of each partition."""

    rows: list[Row]
    looked_at: int
    of: int


class Placements:
    """The queues to which applications lead. Made before the change; `changed` is called after it, on the same state.

    The state holds the queue in which an application is, not the one that its request has named. Where the old rules
    lead to that queue without a name, the request is taken for one without a name; otherwise for one that names the
    queue."""

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
