"""Writes the active text back to the file after a change that did not come from the file.

The new text becomes active between the preparation and the replacement of the file. A process that is killed in
between leaves an entry in the bucket: `text`, the checksum of the text to be written, and `replaces`, the checksum of
the content that it replaces. So a process that starts knows that the file is behind, and was not edited.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_config.file import read_file
from remuda_config.file_writer import PreparedFile, prepare, remove_leftovers

log = structlog.get_logger()

KEY = "write_back"


@dataclass(frozen=True, slots=True)
class Due:
    text: str
    replaces: str


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class WriteBack:
    """Knows which text has to be written to the file. `due`: what is, or was, to be written."""

    def __init__(self, bus: Bus, file: Path) -> None:
        self._bus = bus
        self._file = file
        self.due: Due | None = None

    async def read(self) -> None:
        entry = await self._bus.get(subjects.CONFIGURATIONS.name, KEY)
        self.due = Due(**json.loads(entry.value)) if entry is not None and entry.value else None

    async def announce(self, text: str, replaces: object) -> None:
        """Announces that the text will be written. `replaces`: the content of the file, if it can be read."""
        due = Due(digest(text.encode()), digest(replaces) if isinstance(replaces, bytes) else "")
        await self._bus.put(subjects.CONFIGURATIONS.name, KEY, json.dumps(asdict(due)).encode())
        self.due = due

    async def done(self) -> None:
        """Forgets what was due: the file has the active text, or was edited."""
        if self.due is None:
            return
        try:
            await self._bus.delete(subjects.CONFIGURATIONS.name, KEY)
        except BusError as error:  # the next reading of the file does it
            log.warning("a write to the file is still announced", error=str(error))
        else:
            self.due = None

    def is_due(self, text: str, content: object) -> bool:
        """Returns whether the content of the file is the content that the text replaces."""
        return isinstance(content, bytes) and self.due == Due(digest(text.encode()), digest(content))

    async def prepare(self, text: str) -> PreparedFile:
        """Prepares the file. Raises NotWritable."""
        return await asyncio.to_thread(prepare, self._file, text.encode())

    async def commit(self, prepared: PreparedFile, content: object) -> bool:
        """Returns whether the file had this content and has the prepared one now. Raises NotWritable."""
        return await asyncio.to_thread(self._replace, prepared, content)

    def _replace(self, prepared: PreparedFile, content: object) -> bool:
        if read_file(self._file) != content:
            prepared.discard()
            return False
        prepared.commit()
        return True

    async def remove_leftovers(self) -> None:
        await asyncio.to_thread(remove_leftovers, self._file)
