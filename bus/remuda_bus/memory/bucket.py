"""A key-value bucket in memory."""

from __future__ import annotations

from collections import deque

from remuda_bus import subjects
from remuda_bus.bus import Entry, Refused
from remuda_bus.memory.bell import Bell


class MemoryBucket:
    def __init__(self, settings: subjects.Bucket) -> None:
        self.settings = settings
        self.entries: dict[str, tuple[Entry, float]] = {}  # with the time of the last put
        self.revision = 0
        self.watchers: list[tuple[deque[Entry], Bell]] = []

    def set(self, key: str, value: bytes | None, now: float) -> int:
        self.revision += 1
        entry = Entry(key, value, self.revision)
        if value is None:
            if self.entries.pop(key, None) is None:
                return self.revision
        else:
            self.entries[key] = (entry, now)
        for changes, bell in self.watchers:
            changes.append(entry)
            bell.ring()
        return self.revision


def check_revision(bucket: MemoryBucket, key: str, revision: int | None) -> None:
    found = bucket.entries.get(key)
    current = found[0].revision if found is not None else 0
    if revision is not None and revision != current:
        raise Refused(f"{key}: wrong last sequence: {current}, expected {revision}")
