"""The history service: answers queries about the past of RMs from an archive, and plays it again. It writes nothing but
the reports of replays, beside the archive."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from remuda_archive.settings import ArchiveSettings
from remuda_archive.store import Store
from remuda_bus import health, subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_operations.queries.fields import OF_PAST, expect_fields
from remuda_proto.bounds import shown

from .answers import Answers
from .kept import Replays

# The core and rmproxy run first.
NICENESS = 19


async def main(bus: Bus, settings: ArchiveSettings) -> None:
    os.nice(NICENESS)
    store = Store.open(settings.store, settings.option_values)
    health.PROCESS_HEALTH.set_status(f"reads {store.where}")
    replays = Replays(store, settings.option_values)
    await serve(bus, Answers(store), replays)
    try:
        await asyncio.Event().wait()
    finally:
        await replays.close()


# Requests of one kind that are in work at the same time, in one process.
AT_ONCE = 8


async def serve(bus: Bus, answers: Answers, replays: Replays) -> None:
    async def answer(message: Message) -> bytes:
        rm, kind = message.subject.split(".")[-2:]
        request = _request(message.payload)
        expect_fields(request, OF_PAST[kind])
        match kind:
            case subjects.PAST_SPAN:
                found = await answers.span(rm)
            case subjects.PAST_REPLAY:
                found = await replays.begin(rm, request)
            case subjects.PAST_REPLAYS:
                found = await replays.rows(rm)
            case subjects.PAST_REPORT:
                found = await replays.report(rm, request)
            case _:
                return await answers.answer(rm, kind, request)
        return msgspec.json.encode(found)

    for kind in subjects.ALL_OF_PAST:
        await bus.serve(subjects.past_query("*", kind), answer, kind, at_once=AT_ONCE)


def _request(payload: bytes) -> dict[str, Any]:
    """Raises Refused."""
    try:
        request = msgspec.json.decode(payload or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused(f"the request is {shown(request)}, expected a JSON object")
    return request
