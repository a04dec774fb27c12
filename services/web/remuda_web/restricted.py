"""A source that shows an operator only the queues that the operator may submit to or administer. The operator's present
rights count, also for the past (`at`): a right that was withdrawn shows nothing any more.

Nodes, totals of partitions and the names of RMs stay visible, and so do the names and quotas of queues above. The
configuration names every queue and everybody in access lists, so it does not, nor do the placement rules of a
partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import msgspec

from remuda_bus import subjects
from remuda_bus.status_codes import FORBIDDEN, NOT_FOUND
from remuda_operations.operators import Operator
from remuda_operations.queries.rows import PUBLIC, ExplainedAsk, Node, Partition, Queue, Stats
from remuda_proto.access_list import AccessList
from remuda_proto.si.v1 import si_pb2 as si
from remuda_web import limits
from remuda_web.source import LISTS, Event, Events, Group, Row, Source, Unreadable

Place = tuple[str, str]  # a partition and the path of a queue or an application in it
# Queries in which an application can be named.
_OF_APPLICATIONS: Final = frozenset(["applications", "asks", "allocations", "explain", "forecasts"])
# Of every answer of a core.
_HEAD: Final = frozenset(["rm", "state", "log_seq", "at_ms"])


def _is_public(field: msgspec.structs.FieldInfo) -> bool:
    return PUBLIC in getattr(field.type, "__metadata__", ())


def _public(row: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(row) if _is_public(field))


class _Reduced:
    """Rows of one shape with their public fields. The others are as those of a row that has none, and fields of a newer
    core, of which nobody knows whether they are public, are left out."""

    def __init__(self, row: type[msgspec.Struct]) -> None:
        fields = msgspec.structs.fields(row)
        self._known = frozenset(field.name for field in fields)
        self._blank: Row = {
            field.name: field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            for field in fields
            if not _is_public(field)
        }

    def of(self, row: Row) -> Row:
        return {name: value for name, value in {**row, **self._blank}.items() if name in self._known}


_QUEUE: Final = _Reduced(Queue)
_NODE: Final = _Reduced(Node)
_PARTITION: Final = _Reduced(Partition)
_EXPLAINED: Final = _public(ExplainedAsk)
_STATS: Final = _HEAD | _public(Stats)


class VisibleQueues:
    """The queues of an RM that an operator sees. `rows`: of all its queues, those above first."""

    def __init__(self, rows: Sequence[Row], operator: Operator) -> None:
        self._seen: dict[Place, bool] = {}
        self._above: set[Place] = set()
        for row in rows:
            partition, path = row["partition"], row["path"]
            lists = (AccessList.read(row["submit_acl"]), AccessList.read(row["admin_acl"]))
            allowed = any(one.allows(operator.name, operator.groups) for one in lists)
            self._seen[partition, path] = allowed or self.sees(partition, path.rpartition(".")[0])
            if self._seen[partition, path]:
                self._above.update((partition, above) for above in _above(path))

    def sees(self, partition: str, path: str) -> bool:
        """Whether the operator sees the queue. For a queue that no longer exists, the nearest queue above counts."""
        for one in (path, *_above(path)):
            if (partition, one) in self._seen:
                return self._seen[partition, one]
        return False

    def sees_in_any_partition(self, path: str) -> bool:
        return any(self.sees(partition, path) for partition in {partition for partition, _ in self._seen})

    def shown(self, row: Row) -> Row | None:
        """The row of a queue as the operator sees it; None: not at all."""
        place = row["partition"], row["path"]
        if self.sees(*place):  # also in the past, of a queue that is no more
            return row
        return _QUEUE.of(row) if place in self._above else None


def _above(path: str) -> list[str]:
    names = path.split(".")
    return [".".join(names[:count]) for count in range(len(names) - 1, 0, -1)]


class RestrictedSource:
    """A source as one operator sees it, for one request."""

    def __init__(self, source: Source, operator: Operator) -> None:
        self._source = source
        self._operator = operator
        self._queues: dict[str, VisibleQueues] = {}
        self._applications: dict[tuple[str, str | None], frozenset[Place]] = {}  # of an RM, at a time
        self._names: dict[tuple[str, str | None], frozenset[str]] = {}  # of those applications

    def rms(self) -> Sequence[str]:
        return self._source.rms()

    def records(self) -> Row:
        """Which RMs are halted, without the reason: it may name anything. Dead letters are of any sender."""
        return {"halts": [{"rm_id": one["rm_id"], "at_ms": one["at_ms"]} for one in self._source.records()["halts"]],
                "dead_letters": {}}  # fmt: skip

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        """The times of which there is a past. Other answers about the past are forbidden: a replay shows the waits of
        all queues and users."""
        if kind != subjects.PAST_SPAN:
            raise self._forbidden()
        return await self._source.past(rm, kind, **request)

    async def partitions(self, rm: str) -> list[Row]:
        return [_partition(row) for row in await self._source.partitions(rm)]

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        """Returns as many rows as can be shown without a `next` that names a row which the operator does not see. Of an
        application of others the answer is that it does not exist."""
        named, at = arguments.get("application"), arguments.get("at")
        if kind in _OF_APPLICATIONS and named is not None and named not in await self._visible_names(rm, at):
            raise Unreadable(f"application {named[:64]!r} does not exist", NOT_FOUND)
        if kind == "overview":
            return await self._overview(rm)
        if kind not in LISTS:
            answer = await self._source.page(rm, kind, **arguments)
            return {name: value for name, value in answer.items() if name in _STATS}
        if kind == "explain" and named is None:
            answer, shown = await self._explained(rm, arguments)
        else:
            answer, shown = await self._page(rm, kind, arguments, _limit_of(arguments))
        if kind == "topology":
            return await self._topology(rm, answer)
        if "partitions" in answer:
            answer = {**answer, "partitions": [_partition(row) for row in answer["partitions"]]}
        return {**answer, LISTS[kind]: [row for rows in shown for row in rows]}

    async def _topology(self, rm: str, answer: Row) -> Row:
        """Domains are sums of nodes, which everybody sees; groups that wait are of queues."""
        visible, partitions = await self._visible(rm), []
        for one in answer["partitions"]:
            rows = [row for row in one["waiting"] if visible.sees(one["name"], row["queue"])]
            partitions.append({**one, "waiting": rows, "waiting_count": len(rows)})
        return {**answer, "partitions": partitions}

    async def _overview(self, rm: str) -> Row:
        """The overview with only the queues that the operator sees. Idle devices and the sums of a partition need the
        right to see its root queue."""
        answer, visible = await self._source.page(rm, "overview"), await self._visible(rm)
        shown = dict(answer)
        for kind in ("below_guarantee", "fits_nowhere", "held"):
            rows = [row for row in answer[kind]["rows"] if visible.sees(row["partition"], row["queue"])]
            shown[kind] = {"total": len(rows), "rows": rows}
        rows = [row for row in answer["idle"]["rows"] if visible.sees(row["partition"], "root")]
        shown["idle"] = {"total": len(rows), "rows": rows}
        shown["partitions"] = [
            one if visible.sees(one["name"], "root") else {**one, "pending": {}, "waiting": 0, "waiting_since_ms": 0}
            for one in answer["partitions"]
        ]
        shown["actions"] = await self._shown(rm, "actions", answer["actions"])
        return shown

    async def _page(self, rm: str, kind: str, asked: dict[str, Any], most: int) -> tuple[Row, list[list[Row]]]:
        """A page that ends with a row that is seen, or at the end, and what is seen of each of its rows; at most `most`
        of them. Rows of others before those are passed over in the largest pages."""
        while True:
            answer = await self._source.page(rm, kind, **asked)
            shown = [await self._shown(rm, kind, [row], asked.get("at")) for row in answer[LISTS[kind]]]
            seen = [number for number, rows in enumerate(shown, 1) if rows]
            ends = answer.get("next") is None or seen[-1:] == [len(shown)]
            if ends and len(seen) <= most:
                return answer, shown
            if seen:
                asked = {**asked, "limit": seen[:most][-1]}  # the same page again, up to the last row that is shown
            else:
                asked = {**asked, "after": answer["next"], "limit": limits.PAGE_ROWS}

    async def _explained(self, rm: str, asked: dict[str, Any]) -> tuple[Row, list[list[Row]]]:
        """A page of explanations from the first ask on that the operator sees, up to the first one behind it that it
        does not. Those of others are found in the list of asks, which has the same order: explaining takes longer."""
        most, asked = _limit_of(asked), {**asked, "limit": limits.PAGE_ROWS}
        while True:
            answer = await self._source.page(rm, "asks", **asked)
            seen = [bool(await self._shown(rm, "asks", [row], asked.get("at"))) for row in answer["asks"]]
            if any(seen):
                break
            if answer.get("next") is None:
                return answer, []
            asked = {**asked, "after": answer["next"]}
        first = seen.index(True)
        if first:
            answer = await self._source.page(rm, "asks", **{**asked, "limit": first})
            if answer.get("next") is None:  # they have gone meanwhile
                return answer, []
            asked = {**asked, "after": answer["next"]}
        together = [*seen[first:], False].index(False)
        return await self._page(rm, "explain", {**asked, "limit": min(most, together)}, most)

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return await self._shown(rm, kind, await self._source.rows(rm, kind, **filters), filters.get("at"))

    async def sees_use(self, rm: str) -> Callable[[str, str, str], bool]:
        """A predicate of a partition, a queue and a user: whether the operator sees what the user has used in the
        queue."""
        visible, own = await self._visible(rm), self._operator.name
        return lambda partition, path, user: user == own or visible.sees(partition, path)

    async def sees_queue(self, rm: str, partition: str, path: str) -> bool:
        """Whether the operator sees what is used in the queue."""
        return (await self._visible(rm)).sees(partition, path)

    async def stats(self, rm: str) -> Row:
        return await self.page(rm, "stats")

    async def configurations(self, kind: str, request: Row) -> Row:
        if kind != "check":
            raise self._forbidden()
        return await self._source.configurations(kind, request)

    async def configuration(self, rm: str | None) -> str:
        raise self._forbidden()

    async def problem(self, text: str) -> str:
        return await self._source.problem(text)

    async def events(self, start: int, count: int) -> Events:
        found = await self._source.events(start, count)
        return replace(found, records=[one for one in found.records if await self._shows(one)])

    async def new_events(self, count: int) -> AsyncGenerator[Group]:
        """The new events that the operator sees. A hidden event makes the source read again what the operator sees, at
        most once in WATCH_EVERY_S."""
        loop = asyncio.get_running_loop()
        read_at = loop.time()
        async with aclosing(self._source.new_events(count)) as groups:
            async for group in groups:
                shown = []
                for one in group.events:
                    visible = await self._shows(one)
                    if not visible and loop.time() - read_at >= limits.WATCH_EVERY_S:
                        read_at = loop.time()
                        self._queues.clear()
                        self._applications.clear()
                        self._names.clear()
                        visible = await self._shows(one)
                    if visible:
                        shown.append(one)
                if shown:
                    yield group if len(shown) == len(group.events) else Group(shown)

    async def _shows(self, event: Event) -> bool:
        record = event.record
        try:
            if record.type == si.EventRecord.QUEUE:
                return (await self._visible(event.rm)).sees_in_any_partition(record.objectID)
            if record.type in (si.EventRecord.APP, si.EventRecord.REQUEST):
                name = record.objectID if record.type == si.EventRecord.APP else record.referenceID
                return name in await self._visible_names(event.rm)
        except Unreadable:  # of an RM that is gone
            return False
        return record.type == si.EventRecord.NODE and not record.referenceID

    async def _shown(self, rm: str, kind: str, rows: list[Row], at: str | None = None) -> list[Row]:
        if kind == "nodes":
            known = (
                await self._visible_applications(rm, at) if any(row["reserved_for"] for row in rows) else frozenset()
            )
            return [_node(row, known) for row in rows]
        if kind == "topology":
            return rows
        if kind == "windows":
            visible = await self._visible(rm)
            return [_window(row, visible) for row in rows]
        if kind == "actions":
            return [row for row in rows if row["operator"] == self._operator.name]
        if kind == "allocations":
            known = await self._visible_applications(rm, at) if rows else frozenset()
            return [row for row in rows if (row["partition"], row["application"]) in known]
        visible = await self._visible(rm)
        if kind == "queues":
            return [one for one in map(visible.shown, rows) if one is not None]
        own = self._operator.name
        found = [row for row in rows if row.get("user") == own or visible.sees(row["partition"], row["queue"])]
        if kind == "explain":
            return [{name: value for name, value in row.items() if name in _EXPLAINED} for row in found]
        return found

    async def _visible(self, rm: str) -> VisibleQueues:
        if rm not in self._queues:
            self._queues[rm] = VisibleQueues(await self._source.rows(rm, "queues"), self._operator)
        return self._queues[rm]

    async def _visible_applications(self, rm: str, at: str | None) -> frozenset[Place]:
        if (rm, at) not in self._applications:
            rows = await self.rows(rm, "applications", **({} if at is None else {"at": at}))
            self._applications[rm, at] = frozenset((row["partition"], row["id"]) for row in rows)
        return self._applications[rm, at]

    async def _visible_names(self, rm: str, at: str | None = None) -> frozenset[str]:
        if (rm, at) not in self._names:
            self._names[rm, at] = frozenset(name for _, name in await self._visible_applications(rm, at))
        return self._names[rm, at]

    def _forbidden(self) -> Unreadable:
        reason = f"{self._operator.name} may read about some queues only, and not the configuration (web.restricted)"
        return Unreadable(reason, FORBIDDEN)


def _limit_of(arguments: Mapping[str, Any]) -> int:
    return min(int(arguments.get("limit", limits.PAGE_ROWS)), limits.PAGE_ROWS)


def _partition(row: Row) -> Row:
    """Placement rules are part of the configuration: they name queues, users and groups."""
    return _PARTITION.of(row)


def _window(row: Row, visible: VisibleQueues) -> Row:
    """Without the names of queues that the operator does not see."""
    kept = row["queue"] if visible.sees(row["partition"], row["queue"]) else ""
    return {**row, "queue": kept, "queues": [one for one in row["queues"] if visible.sees(row["partition"], one)]}


def _node(row: Row, known: frozenset[Place]) -> Row:
    row = _NODE.of(row)  # allocations that were rejected are of applications that are not known, and so in no queue
    reserved = row["reserved_for"]
    if reserved and (row["partition"], reserved["application"]) not in known:
        return {**row, "reserved_for": None}
    return row
