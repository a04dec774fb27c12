"""Answers queries for stories, `remuda.api.story.<rm>`, in JSON. One story is read at a time.

The request has `id` (as `remuda story` takes it), `limit` (lines of the page) and `after` (`next` of the page before).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import asdict
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, Message, Refused
from remuda_bus.untrusted import Malformed, json_object
from remuda_events import limits
from remuda_events.stories.story import StoryTarget
from remuda_events.story_reader import first_commit, lines
from remuda_operations.queries.fields import expect_fields
from remuda_proto.bounds import shown

BUSY = 429
UNAVAILABLE = 503
FIELDS = ("id", "limit", "after")
Place = tuple[int, int]  # the position of the commit in the log, and the index of the line among those of the commit


class StoryQueries:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def serve(self) -> None:
        await self._bus.serve(subjects.story("*"), self._answer, "story")

    async def _answer(self, message: Message) -> bytes:
        rm, (sought, after, limit) = _rm(message.subject), _request(message.payload)
        if self._waiting >= limits.STORIES_WAITING:
            raise Refused(f"{self._waiting} stories wait to be read, try again", BUSY)
        self._waiting += 1
        try:
            async with asyncio.timeout(limits.STORY_WITHIN_S), self._turn:
                return msgspec.json.encode(await self._page(rm, sought, after, limit))
        except TimeoutError:
            raise Refused(f"the story was not read within {limits.STORY_WITHIN_S:g} s, try again", BUSY) from None
        except HistoryChanged as error:
            raise Refused(f"the log of {rm!r} has changed: {error}", UNAVAILABLE) from error
        finally:
            self._waiting -= 1

    async def _page(self, rm: str, sought: StoryTarget, after: Place, limit: int) -> dict[str, Any]:
        first = await first_commit(self._bus, rm)
        head = {
            "kept_since_ms": first.commit.now_ms if first is not None else 0,
            "complete": first is None or first.commit.parent == 0,
        }
        found: list[dict[str, Any]] = []
        place, last, index = (0, 0), after, itertools.count()
        async for line in lines(self._bus, rm, sought):
            if line.log_seq != place[0]:
                index = itertools.count()
            place = line.log_seq, next(index)
            if place <= after:
                continue
            if len(found) == limit:
                return {**head, "lines": found, "next": last}
            found.append({**asdict(line), "cause": line.cause})
            last = place
        return {**head, "lines": found}


def _rm(subject: str) -> str:
    try:
        return subjects.check_rm_id(subject.rpartition(".")[2])
    except ValueError as error:
        raise Refused(str(error)) from error


def _request(payload: bytes) -> tuple[StoryTarget, Place, int]:
    """The target, the place behind which the page begins, and its number of lines. Raises Refused."""
    try:
        request = json_object(payload or b"{}", "the request")
    except Malformed as error:
        raise Refused(str(error)) from error
    expect_fields(request, FIELDS)
    try:
        target = StoryTarget.parse(msgspec.convert(request.get("id"), str))
        after = msgspec.convert(request.get("after") or (0, -1), Place)
        limit = msgspec.convert(request.get("limit") or limits.STORY_LINES, int)
    except ValueError as error:
        raise Refused(f"id {shown(request.get('id'))}, after, limit: {error}") from error
    if limit < 1:
        raise Refused(f"limit is {shown(limit)}, expected a number from 1")
    return target, after, min(limit, limits.STORY_LINES)
