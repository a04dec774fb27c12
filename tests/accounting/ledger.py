"""The ledger of an RM after kills: what its checkpoint and the rest of the log add up to is what the whole log does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_events.ledger.follower import read_checkpoint
from remuda_events.ledger.projection import ClosedDay, Projection
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark, bookmark_of
from remuda_operations.ledger.hours import HOUR_MS
from remuda_replication.log import START, LogEntry, LogReader
from tests.patience import PATIENCE

BEGINS_WITHIN_S: Final = 120.0


async def account_of_ledger(bus: Bus, rm: str) -> list[str]:
    """The inconsistencies. The log has to be whole."""
    bookmark = await _begun(bus, rm)
    if bookmark is None:
        return [f"{rm} has no ledger"]
    reader = await LogReader.open(bus, rm)
    entries = [entry async for some in reader.read_to_end() for entry in some]
    await reader.close()
    resumed, position = await read_checkpoint(bus, rm, bookmark, ()) or (Projection(), START)
    whole = Projection()
    due = _closed(whole, entries)
    found = _closed(resumed, [entry for entry in entries if entry.seq > position.seq])
    problems = (
        [] if found == {at: due[at] for at in found} else [f"the checkpoint of the ledger of {rm} is not the log"]
    )
    for at, messages in due.items():
        kept = await _kept(bus, rm, at)
        if at[0] + HOUR_MS <= bookmark.closed_ms and not at[1] and kept != messages:
            problems.append(f"the hour {at[0]} of the ledger of {rm} is not that of the log")
    return problems


async def _begun(bus: Bus, rm: str) -> Bookmark | None:
    """Event services come last after a kill."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BEGINS_WITHIN_S * PATIENCE):
            while True:
                found, _ = await bookmark_of(bus, rm)
                if found is not None and found.begun_ms:
                    return found
                await asyncio.sleep(0.2)
    return None


def _closed(projection: Projection, entries: Iterable[LogEntry]) -> dict[tuple[int, bool], list[bytes]]:
    """Hours and days, with the one that is open: it is closed now."""
    found = [closed for entry in entries for closed in projection.apply(entry.commit)]
    found += projection.advance(projection.hour_ms + HOUR_MS)
    return {(one[0], isinstance(one, ClosedDay)): hours.encode(one[0], one.rows) for one in found}


async def _kept(bus: Bus, rm: str, at: tuple[int, bool]) -> list[bytes]:
    subject = subjects.ledger(rm, at[0] // HOUR_MS)
    last = await bus.last_message(subjects.LEDGER.name, subject)
    messages: list[bytes] = []
    reader = await bus.read(subjects.LEDGER.name, subject)
    while last is not None and len(messages) < await bus.message_count(subjects.LEDGER.name, subject):
        messages += [message.payload for message in await reader.batch()]
    await reader.close()
    return messages
