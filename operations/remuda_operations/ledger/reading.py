"""Sums of the ledger of an RM over any hours, by queue, user, application, partition and tags."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Unreadable
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import bookmark_of
from remuda_operations.ledger.hours import HOUR_MS, Amounts, Group
from remuda_proto.bounds import shown

TAG: Final = "tag:"
TAGS: Final = "tags"  # all tags that the ledger lists, as one JSON object
BY: Final = ("partition", "queue", "user", "application", TAGS)
PER: Final = ("hour", "day", "month", "all")
# The clocks of the events service and of the server may differ by so much, and an hour is stored after its end.
MARGIN_S: Final = 60.0
MESSAGES_AT_ONCE: Final = 200
DAY_MS: Final = hours.HOURS_OF_DAY * HOUR_MS

Seen = Callable[[str, str, str], bool]


class BadQuery(ValueError):
    """A query is wrong. `field`: which of its fields."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TooManyRows(Exception):
    """An answer would have more rows than the caller takes."""


@dataclass(frozen=True, slots=True)
class LedgerQuery:
    """`since_ms`, `until_ms`: hours that begin in between. `by`: what rows are told apart by: of BY, and `tag:NAME`;
    nothing: one row for all. `per`: of PER: a row for each such period; days and months are those of `zone`. Rows of
    the `queue` and below it, of the `user`, and of the `application` alone; empty: of all."""

    since_ms: int
    until_ms: int
    by: tuple[str, ...] = ("queue",)
    per: str = "all"
    zone: str = "UTC"
    partition: str = ""
    queue: str = ""
    user: str = ""
    application: str = ""

    def __post_init__(self) -> None:
        """Raises BadQuery."""
        for one in self.by:
            if one not in BY and not (one.startswith(TAG) and len(one) > len(TAG)):
                raise BadQuery("by", f"by {shown(one)}: expected {', '.join(BY)} or {TAG}NAME")
        if len(set(self.by)) < len(self.by):
            raise BadQuery("by", f"by {shown(','.join(self.by))}: expected each once")
        if self.per not in PER:
            raise BadQuery("per", f"per {shown(self.per)}: expected {', '.join(PER)}")
        if self.since_ms >= self.until_ms:
            since, until = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (self.since_ms, self.until_ms))
            raise BadQuery("since", f"since is {since}, expected a time before until, {until}")
        self.place()

    def place(self) -> tzinfo:
        try:
            return UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        except (ValueError, OSError, LookupError):
            raise BadQuery("zone", f"zone {shown(self.zone)}: expected a time zone such as Europe/Berlin") from None


@dataclass(slots=True)
class LedgerRow:
    """The amounts used in a period. `names`: by each name of the query's `by`; a tag that was not given is empty.
    `amounts`: by kind (`hours.KINDS`) and resource, in base units times milliseconds."""

    from_ms: int
    until_ms: int
    names: dict[str, str]
    amounts: dict[str, Amounts] = field(default_factory=dict)

    def of_use(self) -> Amounts:
        """The amounts used, by resource, of all kinds that are no waste."""
        total: Amounts = {}
        for kind in hours.USE:
            for name, amount in self.amounts.get(kind, {}).items():
                total[name] = total.get(name, 0) + amount
        return total


@dataclass(slots=True)
class LedgerAnswer:
    """`begun_ms`: when the ledger begins; `closed_ms`: the end of its last closed hour; both 0: no ledger is kept of
    the RM any more, or none was. `rows`: by period, then by names."""

    rm: str
    query: LedgerQuery
    begun_ms: int
    closed_ms: int
    rows: list[LedgerRow]

    def as_json(self) -> dict[str, Any]:
        """Values for JSON. Amounts may exceed 64 bits."""
        return {
            "rm": self.rm, "since_ms": self.query.since_ms, "until_ms": self.query.until_ms, "by": list(self.query.by),
            "per": self.query.per, "zone": self.query.zone, "begun_ms": self.begun_ms, "closed_ms": self.closed_ms,
            "rows": [
                {
                    "from_ms": row.from_ms, "until_ms": row.until_ms, **_names(row.names),
                    **{kind: row.amounts.get(kind, {}) for kind in hours.KINDS},
                }
                for row in self.rows
            ],
        }  # fmt: skip


def _names(names: Mapping[str, str]) -> dict[str, Any]:
    """Tags are an object of their own."""
    tags = json.loads(names.get(TAGS) or "{}")
    tags |= {name.removeprefix(TAG): value for name, value in names.items() if name.startswith(TAG)}
    return {**{name: value for name, value in names.items() if name in BY and name != TAGS}, "tags": tags}


async def read_ledger(
    bus: Bus, rm_id: str, query: LedgerQuery, seen: Seen | None = None, most_rows: int | None = None,
    closed_by_ms: int | None = None,
) -> LedgerAnswer:  # fmt: skip
    """`seen`: whether a row of this partition, queue and user is shown; None: all are. `closed_by_ms`: hours that begin
    from then on do not count. Raises BusError, BadQuery, and TooManyRows beyond `most_rows`."""
    bookmark, _ = await bookmark_of(bus, rm_id)
    sums = Sums(query, seen, most_rows)
    begun_ms, closed_ms = (bookmark.begun_ms, bookmark.closed_ms) if bookmark is not None else (0, 0)
    read = query if closed_by_ms is None else replace(query, until_ms=min(query.until_ms, closed_by_ms))
    for wanted in _ranges(rm_id, read, closed_ms):
        async for payloads in _messages(bus, wanted):
            try:
                await asyncio.to_thread(sums.add_all, payloads)
            except ValueError as error:
                raise Unreadable(f"the ledger of {rm_id!r}: {error}") from None
    return LedgerAnswer(rm_id, query, begun_ms, closed_ms, sums.rows())


class _Range(NamedTuple):
    """Hours, or whole days, that begin in a time. `subject`: of their messages. `unit_ms`: how long each is."""

    subject: str
    unit_ms: int
    since_ms: int
    until_ms: int

    def has(self, message: Message) -> bool:
        return self.since_ms <= self._begin_ms(message) < self.until_ms

    def ends_before(self, message: Message) -> bool:
        return self._begin_ms(message) >= self.until_ms

    def _begin_ms(self, message: Message) -> int:
        number = message.subject.rpartition(".")[2]
        return int(number) * self.unit_ms if number.isdecimal() else -1


def _ranges(rm_id: str, query: LedgerQuery, closed_ms: int) -> list[_Range]:
    """Whole days that are closed are read as such, where days or more of UTC are asked for; the rest by the hour."""
    of_hours = partial(_Range, subjects.ledger(rm_id, "*"), HOUR_MS)
    first = hours.day_of(query.since_ms + DAY_MS - 1)
    last = hours.day_of(min(query.until_ms, closed_ms))
    if query.per == "hour" or (query.per != "all" and query.zone != "UTC") or first >= last:
        return [of_hours(query.since_ms, query.until_ms)]
    days = _Range(subjects.ledger_days(rm_id, "*"), DAY_MS, first, last)
    return [one for one in (of_hours(query.since_ms, first), days, of_hours(last, query.until_ms))
            if one.since_ms < one.until_ms]  # fmt: skip


async def _messages(bus: Bus, wanted: _Range) -> AsyncIterator[list[bytes]]:
    """They are stored after their end, perhaps long after, in their order."""
    stream = subjects.LEDGER.name
    last = await bus.last_message(stream, wanted.subject)
    age_s = time.time() - wanted.since_ms / 1_000 + MARGIN_S
    first = await bus.first_sequence_since(stream, wanted.subject, max(0.0, age_s)) if last is not None else None
    if last is None or first is None:
        return
    reader = await bus.read(stream, wanted.subject, first - 1)
    try:
        at = first - 1
        while at < last.seq:
            found = await reader.batch(MESSAGES_AT_ONCE)
            at = found[-1].seq
            if payloads := [message.payload for message in found if wanted.has(message)]:
                yield payloads
            if wanted.ends_before(found[-1]):
                return
    finally:
        await reader.close()


class Sums:
    """Adds up the messages of hours."""

    def __init__(self, query: LedgerQuery, seen: Seen | None = None, most_rows: int | None = None) -> None:
        self._query = query
        self._seen = seen
        self._most_rows = most_rows
        self._sums: dict[tuple[tuple[int, int], tuple[str, ...]], dict[str, Amounts]] = {}
        self._periods = _Periods(query)

    def add_all(self, payloads: Iterable[bytes]) -> None:
        """Raises ValueError when one cannot be read, TooManyRows."""
        for payload in payloads:
            part = hours.decode(payload)
            period = self._periods.of(part.hour_ms)
            for group in part.groups:
                if self._is_asked(group):
                    self._add(period, group)

    def _is_asked(self, group: Group) -> bool:
        asked = self._query
        return (
            (not asked.queue or group.queue == asked.queue or group.queue.startswith(f"{asked.queue}."))
            and (not asked.user or group.user == asked.user)
            and (not asked.partition or group.partition == asked.partition)
            and (self._seen is None or self._seen(group.partition, group.queue, group.user))
        )

    def _add(self, period: tuple[int, int], group: Group) -> None:
        by, application = self._query.by, self._query.application
        names = tuple(_name(group, one) for one in by)
        if "application" not in by and not application:
            for kind, amounts in group.totals():
                self._count(period, names, kind, amounts)
            return
        at = by.index("application") if "application" in by else None
        for name, kind, amounts in group.rows():
            if not application or name == application:
                self._count(period, names if at is None else (*names[:at], name, *names[at + 1 :]), kind, amounts)

    def _count(self, period: tuple[int, int], names: tuple[str, ...], kind: str, amounts: Amounts) -> None:
        key = period, names
        of_row = self._sums.get(key)
        if of_row is None:
            if self._most_rows is not None and len(self._sums) >= self._most_rows:
                raise TooManyRows(
                    f"more than {self._most_rows:,} rows: expected a shorter time, fewer names in by, or a longer per"
                )
            of_row = self._sums[key] = {}
        known = of_row.get(kind)
        if known is None:
            of_row[kind] = amounts
            return
        for name, amount in amounts.items():
            known[name] = known.get(name, 0) + amount

    def rows(self) -> list[LedgerRow]:
        return [
            LedgerRow(*period, dict(zip(self._query.by, names, strict=True)), amounts)
            for (period, names), amounts in sorted(self._sums.items(), key=lambda one: one[0])
        ]


def _name(group: Group, one: str) -> str:
    if one.startswith(TAG):
        return group.tags.get(one.removeprefix(TAG), "")
    if one == TAGS:
        return json.dumps(dict(sorted(group.tags.items()))) if group.tags else ""
    name: str = "" if one == "application" else getattr(group, one)
    return name


class _Periods:
    """The period of an hour: its begin and end, in ms since 1970. An hour belongs to the day in which it begins."""

    def __init__(self, query: LedgerQuery) -> None:
        self._query = query
        self._zone = query.place()
        self._known: tuple[int, int] = (0, 0)

    def of(self, hour_ms: int) -> tuple[int, int]:
        if self._query.per == "all":
            return self._query.since_ms, self._query.until_ms
        if self._query.per == "hour":
            return hour_ms, hour_ms + HOUR_MS
        begin, end = self._known
        if not begin <= hour_ms < end:
            self._known = self._calendar(hour_ms)
        return self._known

    def _calendar(self, hour_ms: int) -> tuple[int, int]:
        at = datetime.fromtimestamp(hour_ms / 1_000, self._zone)
        begin = at.replace(hour=0, minute=0, second=0, microsecond=0)
        if self._query.per == "month":
            begin = begin.replace(day=1)
            end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        else:
            end = datetime.combine(begin.date().fromordinal(begin.toordinal() + 1), begin.time(), self._zone)
        return round(begin.timestamp() * 1_000), round(end.timestamp() * 1_000)
