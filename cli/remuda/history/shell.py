"""The history service: answers queries about the past of RMs from an archive. It keeps nothing and writes nothing."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from remuda_archive.settings import ArchiveSettings
from remuda_archive.store import Store
from remuda_bus import health, subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_proto.bounds import shown

from .answers import Answers

# The core and rmproxy run first.
NICENESS = 19


async def main(bus: Bus, settings: ArchiveSettings) -> None:
    os.nice(NICENESS)
    store = Store.open(settings.store, settings.option_values)
    health.PROCESS_HEALTH.set_status(f"reads {store.where}")
    await serve(bus, Answers(store))
    await asyncio.Event().wait()


async def serve(bus: Bus, answers: Answers) -> None:
    async def answer(message: Message) -> bytes:
        rm, kind = message.subject.split(".")[-2:]
        return await answers.answer(rm, kind, _request(message.payload))

    for kind in subjects.PAST_QUERIES:
        await bus.serve(subjects.past_query("*", kind), answer, kind, at_once=1)


def _request(payload: bytes) -> dict[str, Any]:
    """Raises Refused."""
    try:
        request = msgspec.json.decode(payload or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused(f"the request is {shown(request)}, expected a JSON object")
    return request
