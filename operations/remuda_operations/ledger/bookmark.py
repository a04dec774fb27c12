"""The position that the ledger of an RM has reached: an entry of the bucket EVENT_BOOKMARKS."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from remuda_bus import subjects
from remuda_bus.bus import Bus, Unreadable


class Bookmark(msgspec.Struct, frozen=True):
    """`seq`, `hash`: of the last commit that is in the checkpoint of that number. `before`: the number of the
    checkpoint before, which backups may hold; 0: none. `begun_ms`: when the ledger begins. `closed_ms`: the end of the
    last closed hour: all hours between are closed, and those without messages were without use. `rebuilt`: the log was
    deleted since, and begins anew."""

    seq: int
    hash: str
    begun_ms: int
    closed_ms: int
    before: int = 0
    rebuilt: bool = False

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


async def bookmark_of(bus: Bus, rm_id: str) -> tuple[Bookmark | None, int]:
    """The bookmark, and its revision; None: the RM has no ledger. Raises BusError."""
    entry = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(rm_id))
    if entry is None:
        return None, 0
    if entry.value is None:
        return None, entry.revision
    try:
        return msgspec.json.decode(entry.value, type=Bookmark), entry.revision
    except msgspec.DecodeError as error:
        raise Unreadable(f"the bookmark of the ledger of {rm_id!r}: {error}") from None


async def note_rebuilt(bus: Bus, rm_id: str) -> None:
    """Let the ledger go on at the begin of a new log. Raises BusError."""
    bookmark, revision = await bookmark_of(bus, rm_id)
    if bookmark is not None:
        value = replace(bookmark, rebuilt=True).encode()
        await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(rm_id), value, revision)
