"""The changes between two commits, and the people behind them: `remuda diff`. Rows are as in docs/queries.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from remuda_core.core import Core
from remuda_core.shell.machine import CoreMachine
from remuda_core.shell.queries import Queries
from remuda_events.stories.sentences import SENTENCES
from remuda_events.stories.story import line, printable
from remuda_proto.remuda.v1 import log_pb2

from .past import LAST, At, Past

Row = Mapping[str, Any]
Key = tuple[str, ...]
# The fields that are compared, by the kind of the row. Others follow from them, or change with every commit.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "queues": (
        "status", "held", "allocated", "pending", "guaranteed", "max", "max_applications", "applications",
        "running_applications", "properties", "template", "limits", "submit_acl", "admin_acl",
    ),
    "nodes": ("status", "capacity", "occupied", "allocated", "attributes", "drained", "allocations"),
    "usage": ("used", "max", "applications", "running_applications", "max_applications"),
}  # fmt: skip
_KEYS: Mapping[str, tuple[str, ...]] = {
    "queues": ("partition", "path"), "nodes": ("partition", "id"), "usage": ("partition", "user", "group", "queue"),
}  # fmt: skip
# Facts by which people change something.
_BY_PEOPLE = ("action_taken", "configuration_applied", "rm_registered", "rm_stopped")
# The most of them that are named.
CAUSES_KEPT = 1_000


class Change(msgspec.Struct, frozen=True):
    """`name`: of the queue, node or user. `change`: added, removed or changed. `fields`: of what changed, before and
    after."""

    partition: str
    name: str
    change: str
    fields: dict[str, tuple[Any, Any]]


class Cause(msgspec.Struct, frozen=True):
    """`who`: the operator, or "" where the RM or the configuration did it. `text`: a sentence."""

    at_ms: int
    log_seq: int
    who: str
    text: str


class Changes(msgspec.Struct, frozen=True):
    """The changes between two commits. `configuration`: the checksums. `facts`: how many there are of each kind."""

    rm: str
    log_seqs: tuple[int, int]
    at_ms: tuple[int, int]
    configuration: tuple[str, str]
    queues: list[Change]
    nodes: list[Change]
    usage: list[Change]
    causes: list[Cause]
    facts: dict[str, int]


async def changes(past: Past, since: At, until: At = LAST) -> Changes:
    """Raises what `Past` raises; ValueError where `until` is before `since`."""
    begin = await past.restore(since)
    first_seq, first_ms, before = begin.position.seq, begin.now_ms, _rows_of(begin.core)
    checksum = _checksum(begin.core)
    causes, facts = list[Cause](), dict[str, int]()
    machine, last_seq = CoreMachine(begin.core), first_seq
    async for step in past.steps(begin, until):
        commit = step.entry.commit
        machine.apply(CoreMachine.commit_class.FromString(commit.SerializeToString()))
        last_seq = step.entry.seq
        for cause in _causes(step.entry.seq, commit, facts):
            if len(causes) < CAUSES_KEPT:
                causes.append(cause)
    if last_seq == first_seq and until != LAST and until != since:
        end = await past.restore(until)
        if end.position.seq < first_seq:
            raise ValueError(f"commit {end.position.seq} is before commit {first_seq}: name the earlier one first")
    after = _rows_of(begin.core)
    found = {kind: list(_different(kind, before[kind], after[kind])) for kind in _FIELDS}
    return Changes(
        past.rm, (first_seq, last_seq), (first_ms, begin.now_ms), (checksum, _checksum(begin.core)), found["queues"],
        found["nodes"], found["usage"], causes, facts,
    )  # fmt: skip


def _rows_of(core: Core) -> dict[str, dict[Key, Row]]:
    queries = Queries(core)
    return {
        kind: {tuple(str(row.get(name, "")) for name in _KEYS[kind]): row for row in rows_of(queries, kind)}
        for kind in _FIELDS
    }


def rows_of(queries: Queries, kind: str) -> Iterator[Row]:
    """All rows of a query, as in its JSON."""
    after: dict[str, Any] = {}
    while True:
        page = msgspec.json.decode(msgspec.json.encode(queries.kinds[kind](after)))
        yield from page[kind]
        if page.get("next") is None:
            return
        after = {"after": page["next"]}


def _different(kind: str, before: Mapping[Key, Row], after: Mapping[Key, Row]) -> Iterator[Change]:
    for key in sorted({*before, *after}):
        one, other = before.get(key), after.get(key)
        change = "changed" if one and other else "removed" if one else "added"
        fields = {
            name: (None if one is None else one.get(name), None if other is None else other.get(name))
            for name in _FIELDS[kind]
        }
        fields = {name: pair for name, pair in fields.items() if (pair[0] or None) != (pair[1] or None)}
        if fields or change != "changed":
            yield Change(key[0], _name(kind, key), change, fields)


def _name(kind: str, key: Key) -> str:
    if kind != "usage":
        return key[1]
    _, user, group, queue = key
    return f"{'user ' + user if user else 'group ' + group} in {queue}"


def _checksum(core: Core) -> str:
    found = core.state.configuration
    return found.checksum if found is not None else ""


def _causes(seq: int, commit: log_pb2.Commit, facts: dict[str, int]) -> Iterator[Cause]:
    for decision in commit.decisions:
        for message in decision.facts:
            kind = message.WhichOneof("fact") or "unknown"
            facts[kind] = facts.get(kind, 0) + 1
            if kind in _BY_PEOPLE:
                yield _cause(seq, commit, decision, kind, getattr(message, kind))


def _cause(seq: int, commit: log_pb2.Commit, decision: log_pb2.Decision, kind: str, fact: Any) -> Cause:
    if kind == "configuration_applied":
        source = f" from {fact.source}" if fact.source else ""
        revision = f", revision {fact.revision}" if fact.revision else ""
        return Cause(commit.now_ms, seq, "", printable(f"configuration {fact.checksum[:12]}{source} applied{revision}"))
    who = fact.action.operator if kind == "action_taken" else ""
    text = line(seq, commit, decision, kind, fact).text if kind in SENTENCES else kind.replace("_", " ")
    return Cause(commit.now_ms, seq, who, text)
