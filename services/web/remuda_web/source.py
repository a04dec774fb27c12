"""The source of the web service: rows of queries, configurations and events. `bus_source` reads from the bus."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from remuda_proto.si.v1 import si_pb2 as si

Row = dict[str, Any]
Encode = Callable[["Event"], bytes]
# Queries whose answer is a page of rows -> the field with them.
LISTS: Final = {
    "queues": "queues", "nodes": "nodes", "applications": "applications", "rejections": "rejections",
    "allocations": "allocations", "asks": "asks", "usage": "usage", "explain": "asks", "actions": "actions",
    "topology": "domains", "windows": "windows", "forecasts": "forecasts",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A record of the event history."""

    rm: str
    record: si.EventRecord


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Events that are told together. All followers of the same ones get the same object."""

    events: Sequence[Event]
    _encoded: dict[Encode, bytes] = field(default_factory=dict)

    def encoded(self, encode: Encode) -> bytes:
        """`encode` of each event, joined; once for all followers."""
        found = self._encoded.get(encode)
        if found is None:
            found = self._encoded[encode] = b"".join(map(encode, self.events))
        return found


@dataclass(frozen=True, slots=True)
class Events:
    """Records of the event history behind a position. `lowest`, `highest`: positions of the oldest and newest record
    there is, from 0."""

    lowest: int
    highest: int
    records: Sequence[Event]


class Unreadable(Exception):
    """No service answers, or it refuses. The message is for people. `code`: as in HTTP."""

    def __init__(self, message: str, code: int = 503) -> None:
        super().__init__(message)
        self.code = code


class Source(Protocol):
    """Every method raises Unreadable."""

    def rms(self) -> Sequence[str]:
        """The registered RMs, sorted."""
        ...

    def records(self) -> Row:
        """`halts`: of RMs; `dead_letters`: how many each RM has, if the newest is at most DEAD_LETTERS_FOR_S old."""
        ...

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        """The answer to one query, as it is. `at`: of the past, a time or a commit, as text."""
        ...

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        """The answer to a question about the past that is about no single moment: its span, and replays."""
        ...

    async def partitions(self, rm: str) -> list[Row]:
        """The rows of the RM's partitions."""
        ...

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        """All rows of a query (docs/queries.md); none where its application does not exist."""
        ...

    async def stats(self, rm: str) -> Row: ...

    async def configuration(self, rm: str | None) -> str:
        """The text of the configuration that the RM has (None: that of the file); "": the built-in one."""
        ...

    async def configurations(self, kind: str, request: Row) -> Row:
        """The answer to a query about the configuration: history, show, check."""
        ...

    async def problem(self, text: str) -> str:
        """Why a configuration is refused; "": it is valid."""
        ...

    async def events(self, start: int, count: int) -> Events:
        """Returns at most `count` records from the position `start` on."""
        ...

    def new_events(self, count: int) -> AsyncGenerator[Group]:
        """The last `count` records, and then each new one, in groups."""
        ...
