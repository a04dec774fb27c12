"""Reads from cores, the configuration service and the event history, over the bus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict
from typing import Any, Final, TypeVar

import msgspec
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Message, Refused
from remuda_bus.status_codes import NOT_FOUND
from remuda_operations.queries import configuration
from remuda_operations.queries.core import ask_core, ask_past
from remuda_replication.rms.halts import Halt
from remuda_web import limits
from remuda_web.event_tail import ALL_EVENTS, EventTail, event_of
from remuda_web.source import LISTS, Events, Group, Row, Unreadable

log = structlog.get_logger()
T = TypeVar("T")
# More digits than a stream has sequences.
SEQ_DIGITS: Final = 18
# States of the record of an RM that a core serves.
SERVED: Final = ("registered", "report_wanted")


class BusSource:
    """`watch` has to run."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._rms: dict[str, str] = {}
        self._halts: dict[str, Row] = {}
        self._dead_letters: dict[str, int] = {}
        self._tail = EventTail(bus, self._read)

    async def watch(self) -> None:
        """Follow the records of RMs and halts, and look for dead letters, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(subjects.RMS.name, self._rms, _served))
            group.create_task(self._follow(subjects.HALTS.name, self._halts, _halt))
            group.create_task(self._watch_dead_letters())

    async def _follow(self, bucket: str, kept: dict[str, T], read: Callable[[bytes], T | None]) -> None:
        """Keep what `read` makes of each entry; None: the entry is not kept."""
        async for entry in self._bus.watch(bucket):
            kept.pop(entry.key, None)
            try:
                found = read(entry.value) if entry.value is not None else None
            except (ValueError, KeyError, TypeError) as error:
                log.warning("a record cannot be read", bucket=bucket, key=entry.key, error=str(error))
            else:
                if found is not None:
                    kept[entry.key] = found

    async def _watch_dead_letters(self) -> None:
        while True:
            try:
                self._dead_letters = await self._count_dead_letters()
            except BusError as error:
                log.warning("dead letters cannot be counted", error=str(error))
            await asyncio.sleep(limits.DEAD_LETTERS_EVERY_S)

    async def _count_dead_letters(self) -> dict[str, int]:
        stream, found = subjects.DEAD_LETTERS.name, dict[str, int]()
        if await self._bus.first_sequence_since(stream, subjects.dead_letter("*"), limits.DEAD_LETTERS_FOR_S) is None:
            return found
        for rm in self.rms():
            subject = subjects.dead_letter(rm)
            if await self._bus.first_sequence_since(stream, subject, limits.DEAD_LETTERS_FOR_S) is not None:
                found[rm] = await self._bus.message_count(stream, subject)
        return found

    def rms(self) -> list[str]:
        return sorted(self._rms.values())

    def records(self) -> Row:
        return {"halts": list(self._halts.values()), "dead_letters": self._dead_letters}

    async def partitions(self, rm: str) -> list[Row]:
        found: list[Row] = (await self.page(rm, "queues", limit=1))["partitions"]
        return found

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        found: list[Row] = []
        after: dict[str, Any] = {}
        while True:
            try:
                page = await self.page(rm, kind, **filters, **after)
            except Unreadable as error:
                if error.code == NOT_FOUND:
                    return []
                raise
            found += page[LISTS[kind]]
            if page.get("next") is None:
                return found
            after = {"after": page["next"]}

    async def stats(self, rm: str) -> Row:
        return await self.page(rm, "stats")

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        at = arguments.pop("at", None)
        try:
            if at is not None:
                moment = int(at) if at.isascii() and at.isdigit() and len(at) <= SEQ_DIGITS else at
                return await ask_past(self._bus, kind, dict[str, Any], rm=rm, at=moment, **arguments)
            return await ask_core(self._bus, kind, dict[str, Any], rm=rm, **arguments)
        except (BusError, msgspec.DecodeError) as error:
            raise _unreadable(error) from error

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        try:
            return await ask_past(self._bus, kind, dict[str, Any], rm=rm, **request)
        except (BusError, msgspec.DecodeError) as error:
            raise _unreadable(error) from error

    async def configurations(self, kind: str, request: Row) -> Row:
        try:
            return await configuration.query(self._bus, kind, request)
        except BusError as error:
            raise _unreadable(error) from error

    async def configuration(self, rm: str | None) -> str:
        for request in ({},) if rm is None else ({"rm": rm}, {}):
            try:
                versions = (await configuration.query(self._bus, "history", request))["versions"]
                if versions:
                    shown = await configuration.query(
                        self._bus, "show", {**request, "version": max(one["number"] for one in versions)}
                    )
                    return str(shown["text"])
            except Refused:
                continue  # this RM has no text of its own, or there is no file
            except BusError as error:
                raise Unreadable(str(error)) from error
        return ""

    async def problem(self, text: str) -> str:
        answer = await self.configurations("check", {"text": text})
        return "; ".join(f"{one['path']}: {one['message']}" for one in answer["problems"])

    async def events(self, start: int, count: int) -> Events:
        try:
            first = await self._bus.first_message(subjects.EVENTS.name, ALL_EVENTS)
            last = await self._bus.last_sequence(subjects.EVENTS.name)
            if first is None or start >= last:
                return Events(max(0, (first.seq if first else last) - 1), max(0, last - 1), ())
            records = [event_of(message) for message in await self._read(start, min(count, last - start))]
        except BusError as error:
            raise Unreadable(str(error)) from error
        return Events(first.seq - 1, last - 1, records)

    async def _read(self, after: int, count: int) -> list[Message]:
        reader = await self._bus.read(subjects.EVENTS.name, ALL_EVENTS, after)
        found: list[Message] = []
        try:
            while len(found) < count:
                batch = await reader.batch(min(count - len(found), 1_000), timeout_s=limits.EVENTS_WITHIN_S)
                if not batch:
                    break
                found += batch
        finally:
            await reader.close()
        return found

    def new_events(self, count: int) -> AsyncGenerator[Group]:
        return self._tail.follow(count)


def _served(value: bytes) -> str | None:
    """The name of an RM that a core serves."""
    record = json.loads(value)
    return str(record["rm_id"]) if record["state"] in SERVED else None


def _halt(value: bytes) -> Row | None:
    halt = Halt.decode(value)
    return None if subjects.is_peloton(halt.rm_id) else asdict(halt)


def _unreadable(error: Exception) -> Unreadable:
    return Unreadable(error.reason, error.code) if isinstance(error, Refused) else Unreadable(str(error))
