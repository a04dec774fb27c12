"""The versions of the file's configuration on the bus.

The entry FILE of the bucket CONFIGURATIONS holds the version in force, with its text. It is replaced only at the
revision that was read, so of two changes at the same time one is refused. That put makes a change durable, effective
and part of the history. The bucket CONFIGURATION_VERSIONS keeps copies: the newest FILE_VERSIONS_KEPT versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused, Unanswered
from remuda_config.versions import Version, read_document

FILE = "file"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version with its text. `revision`: of the entry in the bucket; the next version replaces it."""

    text: str
    version: Version
    revision: int


class VersionStore:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[int, Version] = {}  # read from the bucket, or written to it by this process

    async def newest(self) -> StoredVersion | None:
        """Returns the version in force."""
        entry = await self._bus.get(subjects.CONFIGURATIONS.name, FILE)
        if entry is None or entry.value is None:
            return None
        text, version = read_document(entry.value, entry.revision)
        return StoredVersion(text, version, entry.revision)

    async def append(self, text: str, version: Version, before: StoredVersion | None) -> StoredVersion:
        """Replaces the version in force. Raises Refused when it is not `before`; Unanswered: it is unknown whether
        it was replaced.
        """
        if before is not None:  # its copy is complete before the original goes
            await self.keep(before)
        document = version.document(text)
        try:
            revision = await self._bus.put(
                subjects.CONFIGURATIONS.name, FILE, document, before.revision if before is not None else 0
            )
        except Unanswered:
            entry = await self._bus.get(subjects.CONFIGURATIONS.name, FILE)
            if entry is None or entry.value != document:
                raise
            revision = entry.revision
        return StoredVersion(text, version, revision)

    async def keep(self, stored: StoredVersion) -> None:
        """Copies a version into the history, unless it is there."""
        version = stored.version
        if self._known.get(version.number) == version:
            return
        key = subjects.version_key(version.number)
        while True:
            entry = await self._bus.get(subjects.CONFIGURATION_VERSIONS.name, key)
            revision = 0
            if entry is not None and entry.value is not None:
                revision = entry.revision
                _, there = read_document(entry.value, 0)
                if there.number > version.number or there == version:
                    break
            try:
                await self._bus.put(subjects.CONFIGURATION_VERSIONS.name, key, version.document(stored.text), revision)
                break
            except Refused:  # another process has just copied it
                continue
        self._known[version.number] = version
        self._known.pop(version.number - subjects.FILE_VERSIONS_KEPT, None)

    async def history(self) -> list[Version]:
        """Returns all versions that are kept, the newest first, without their changes."""
        newest = await self.newest()
        if newest is None:
            return []
        found = [newest.version]
        last = newest.version.number
        for number in range(last - 1, max(0, last - subjects.FILE_VERSIONS_KEPT), -1):
            version = self._known.get(number)
            if version is None or (number == last - 1 and version.is_staged):  # another process may have confirmed it
                stored = await self.find(number)
                version = stored.version if stored is not None else None
            if version is not None:
                found.append(version)
        return [replace(version, changes=()) for version in found]

    async def find(self, number: int) -> StoredVersion | None:
        """Returns a version with its text; None: there is none of this number, or it is no longer kept."""
        newest = await self.newest()
        if newest is None or newest.version.number == number:
            return newest
        entry = await self._bus.get(subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(number))
        if entry is None or entry.value is None:
            return None
        text, version = read_document(entry.value, 0)
        if version.number != number:
            return None
        self._known[number] = version
        return StoredVersion(text, version, 0)
