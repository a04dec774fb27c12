"""A source whose rows are read once for all requests of the same moment."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from remuda_web import limits
from remuda_web.kept import Kept
from remuda_web.source import Events, Group, Row, Source


class KeptSource:
    """Rights are applied to what it gives, so they are not part of its keys. Nobody changes a row of it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: Kept[list[Row]] = Kept(limits.KEPT_ROWS, lambda rows: 1 + len(rows))

    def forget(self) -> None:
        self._rows.forget()

    def rms(self) -> Sequence[str]:
        return self._source.rms()

    def records(self) -> Row:
        return self._source.records()

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        return await self._source.page(rm, kind, **arguments)

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        return await self._source.past(rm, kind, **request)

    async def partitions(self, rm: str) -> list[Row]:
        return await self._rows.get((rm, "partitions"), lambda: self._source.partitions(rm))

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        key = (rm, kind, *sorted(filters.items()))
        return await self._rows.get(key, lambda: self._source.rows(rm, kind, **filters))

    async def stats(self, rm: str) -> Row:
        async def read() -> list[Row]:
            return [await self._source.stats(rm)]

        return (await self._rows.get((rm, "stats"), read))[0]

    async def configuration(self, rm: str | None) -> str:
        return await self._source.configuration(rm)

    async def configurations(self, kind: str, request: Row) -> Row:
        return await self._source.configurations(kind, request)

    async def problem(self, text: str) -> str:
        return await self._source.problem(text)

    async def events(self, start: int, count: int) -> Events:
        return await self._source.events(start, count)

    def new_events(self, count: int) -> AsyncGenerator[Group]:
        return self._source.new_events(count)
