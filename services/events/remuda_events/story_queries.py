"""Answers queries for stories, `remuda.api.story.<rm>`, in JSON. One story is read at a time.

The request has `id` (as `remuda story` takes it), `limit` (lines of the page), `since_ms` (0: all) and `after`: `next`
of the page before, or `resume` of the last page, with which only commits are read that have come since.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, Message, Refused
from remuda_bus.untrusted import Malformed, json_object
from remuda_events import limits
from remuda_events.stories.story import StoryTarget
from remuda_events.story_reader import StoryReading, first_commit
from remuda_operations.queries.fields import expect_fields
from remuda_proto.bounds import shown

BUSY = 429
UNAVAILABLE = 503
FIELDS = ("id", "limit", "since_ms", "after")
_END_OF_COMMIT = 2**31


class Place(NamedTuple):
    """The position of a commit in the log, and the index of a line among those of the commit. `application`, `key`: of
    the ask of the allocation that the story is about."""

    log_seq: int
    line: int
    application: str = ""
    key: str = ""


class _Request(NamedTuple):
    target: StoryTarget
    after: Place | None
    since_ms: int
    limit: int


class StoryQueries:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def serve(self) -> None:
        await self._bus.serve(subjects.story("*"), self._answer, "story")

    async def _answer(self, message: Message) -> bytes:
        rm, request = _rm(message.subject), _request(message.payload)
        if self._waiting >= limits.STORIES_WAITING:
            raise Refused(f"{self._waiting} stories wait to be read, try again", BUSY)
        self._waiting += 1
        try:
            async with asyncio.timeout(limits.STORY_WITHIN_S), self._turn:
                return msgspec.json.encode(await self._page(rm, request))
        except TimeoutError:
            raise Refused(f"the story was not read within {limits.STORY_WITHIN_S:g} s, try again", BUSY) from None
        except HistoryChanged as error:
            raise Refused(f"the log of {rm!r} has changed: {error}", UNAVAILABLE) from error
        finally:
            self._waiting -= 1

    async def _page(self, rm: str, request: _Request) -> dict[str, Any]:
        first = await first_commit(self._bus, rm)
        head: dict[str, Any] = {
            "kept_since_ms": first.commit.now_ms if first is not None else 0,
            "complete": first is None or first.commit.parent == 0,
        }
        reading, after = await self._reading(rm, request), request.after
        found: list[dict[str, Any]] = []
        at, last, index = 0, Place(0, -1), itertools.count()
        async with aclosing(reading.lines()) as lines:
            async for line in lines:
                if line.log_seq != at:
                    index = itertools.count()
                at = line.log_seq
                place = Place(at, next(index), *(reading.target.ask or ()))
                if after is not None and place[:2] <= after[:2]:
                    continue
                if len(found) == request.limit:
                    return {**head, "lines": found, "next": last}
                found.append({**asdict(line), "cause": line.cause})
                last = place
        if found or after is not None:
            head["resume"] = Place(reading.end, _END_OF_COMMIT, *(reading.target.ask or ()))
        return {**head, "lines": found}

    async def _reading(self, rm: str, request: _Request) -> StoryReading:
        after = request.after
        if after is not None:
            ask = (after.application, after.key) if after.application else None
            return await StoryReading.resumed(self._bus, rm, replace(request.target, ask=ask), after.log_seq)
        if request.since_ms:
            return await StoryReading.since(self._bus, rm, request.target, request.since_ms)
        return StoryReading(self._bus, rm, request.target)


def _rm(subject: str) -> str:
    try:
        return subjects.check_rm_id(subject.rpartition(".")[2])
    except ValueError as error:
        raise Refused(str(error)) from error


def _request(payload: bytes) -> _Request:
    """Raises Refused."""
    try:
        request = json_object(payload or b"{}", "the request")
    except Malformed as error:
        raise Refused(str(error)) from error
    expect_fields(request, FIELDS)
    try:
        target = StoryTarget.parse(msgspec.convert(request.get("id"), str))
        after = msgspec.convert(request.get("after"), Place | None)
        since_ms = msgspec.convert(request.get("since_ms") or 0, int)
        limit = msgspec.convert(request.get("limit") or limits.STORY_LINES, int)
    except ValueError as error:
        raise Refused(f"id {shown(request.get('id'))}, after, since_ms, limit: {error}") from error
    for name, value in (("limit", limit), ("since_ms", since_ms + 1)):
        if value < 1:
            raise Refused(f"{name} is {shown(request[name])}, expected a number from {int(name == 'limit')}")
    return _Request(target, after, since_ms, min(limit, limits.STORY_LINES))
