"""The texts that RMs bring, as versions: the newest RM_VERSIONS_KEPT of each RM.

A text becomes a version when the RM is on record, as its assignment does (`assignments`). Until then it is kept in
memory.
"""

from __future__ import annotations

import time

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_config import limits
from remuda_config.shell.version_store import StoredVersion
from remuda_config.versions import RM, Version, read_document

log = structlog.get_logger()


class RmVersions:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._awaited: dict[str, tuple[str, str]] = {}  # text and checksum, by rmID
        self._awaited_bytes = 0
        self._newest: dict[str, str] = {}  # checksum of the stored version, by rmID

    def expect(self, rm_id: str, text: str, checksum: str) -> None:
        """Keeps the text until the RM is on record. When there are too many, the oldest is dropped."""
        self.drop(rm_id)
        self._awaited[rm_id] = (text, checksum)
        self._awaited_bytes += len(text)
        while self._awaited_bytes > limits.AWAITED_TEXTS_BYTES:
            self.drop(next(iter(self._awaited)))

    def drop(self, rm_id: str) -> None:
        text, _ = self._awaited.pop(rm_id, ("", ""))
        self._awaited_bytes -= len(text)

    async def accept(self, rm_id: str, checksum: str) -> None:
        """Stores the awaited text as a version of the RM, unless its newest one has the same text. An outage loses
        the version, not the configuration.
        """
        text, awaited = self._awaited.get(rm_id, ("", ""))
        if not text or awaited != checksum:
            return
        self.drop(rm_id)
        if self._newest.get(rm_id) == checksum:
            return
        try:
            await self._store(rm_id, text, checksum)
        except BusError as error:
            log.warning("a configuration of an RM is not in the history", rm=rm_id, error=str(error))
        else:
            self._newest[rm_id] = checksum

    async def _store(self, rm_id: str, text: str, checksum: str) -> None:
        while True:
            kept = await self._read(rm_id)
            newest = max(kept, key=lambda stored: stored.version.number, default=None)
            if newest is not None and newest.version.checksum == checksum:
                return  # another configuration service was faster
            number = newest.version.number + 1 if newest is not None else 1
            key = subjects.version_key(number, rm_id)
            replaced = next((one.revision for one in kept if subjects.version_key(one.version.number, rm_id) == key), 0)
            version = Version(
                number, checksum, "registration", RM, rm_id, int(time.time() * 1_000), text_bytes=len(text.encode())
            )
            try:
                await self._bus.put(subjects.CONFIGURATION_VERSIONS.name, key, version.document(text), replaced)
                return
            except Refused:
                continue

    def forget(self, rm_id: str) -> None:
        self.drop(rm_id)
        self._newest.pop(rm_id, None)

    async def history(self, rm_id: str) -> list[Version]:
        """Returns the versions, the newest first."""
        return sorted((stored.version for stored in await self._read(rm_id)), key=lambda version: -version.number)

    async def find(self, rm_id: str, number: int) -> StoredVersion | None:
        return next((stored for stored in await self._read(rm_id) if stored.version.number == number), None)

    async def _read(self, rm_id: str) -> list[StoredVersion]:
        found = []
        for slot in range(subjects.RM_VERSIONS_KEPT):
            key = subjects.version_key(slot, rm_id)
            entry = await self._bus.get(subjects.CONFIGURATION_VERSIONS.name, key)
            if entry is not None and entry.value is not None:
                found.append(StoredVersion(*read_document(entry.value, 0), entry.revision))
        return found
