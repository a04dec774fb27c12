"""Watch the free space for streams and failed writes of nats-server.

After a failed write on a full disk, nats-server accepts no message until it is restarted, even when there is space
again, and its API may not answer. Acknowledged messages are synced, so a restart loses none.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from remuda_bus import subjects
from remuda_bus.nats import Msg, NatsError

from .. import limits
from ..client.service_ping import plain_client
from ..terminal.units import size

NO_SPACE = b"no space left on device"


class Level(StrEnum):
    ENOUGH = "enough"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Storage:
    """Space on the file system with the streams. `failed`: nats-server failed to write and needs a restart."""

    directory: str
    free: int
    total: int
    level: Level
    failed: bool = False

    def describe(self) -> str:
        """One line for the operator."""
        if not self.total:
            return f"GONE: {self.directory} cannot be read. No message can be stored"
        room = f"{size(self.free)} of {size(self.total)} free in {self.directory}"
        if self.level is Level.FULL:
            return f"FULL: {room}. No message can be stored: free space, and remuda continues"
        if self.failed:
            return f"{room}; nats-server failed to write and is being restarted"
        return f"LOW: {room}. When it is full, nothing is scheduled" if self.level is Level.LOW else room

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class StorageWatch:
    """Checks a file system and the log of the nats-server that writes to it."""

    def __init__(self, directory: Path, server_log: Path) -> None:
        self._directory = directory
        self._log = server_log
        self._read_to = _size_of(server_log)
        self._failed = False

    def check(self) -> Storage:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            self._failed = True
            return Storage(str(self._directory), 0, 0, Level.FULL, failed=True)
        free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        no_files = found.f_files > 0 and found.f_favail == 0
        level = Level.FULL if no_files else level_of(free, total)
        # nats-server cannot log on a full disk.
        self._failed = self._failed or level is Level.FULL or self._log_shows_failed_write()
        return Storage(str(self._directory), free, total, level, self._failed)

    def restarted(self) -> None:
        """Record a restart of nats-server."""
        self._failed = False
        self._read_to = _size_of(self._log)

    def _log_shows_failed_write(self) -> bool:
        end = _size_of(self._log)
        if end == self._read_to:
            return False
        start = self._read_to if self._read_to < end else 0  # a new file has begun
        start = max(start - len(NO_SPACE), end - limits.LOG_LOOK_BYTES, 0)
        try:
            with self._log.open("rb") as log:
                log.seek(start)
                new = log.read(limits.LOG_LOOK_BYTES)
        except OSError:
            return False
        self._read_to = end
        return NO_SPACE in new


def level_of(free: int, total: int) -> Level:
    """The level by free share, or by free bytes on large disks."""
    if free < min(total * limits.FULL_SHARE, limits.FULL_BYTES):
        return Level.FULL
    return Level.LOW if free < min(total * limits.LOW_SHARE, limits.LOW_BYTES) else Level.ENOUGH


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


class StorageEndpoint:
    """Serves the storage status on the bus and publishes each change of level. Plain NATS: JetStream may not answer.

    `async with StorageEndpoint(url) as endpoint`: `update` sets the answer, `publish` also publishes it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._latest = b"{}"

    async def __aenter__(self) -> StorageEndpoint:
        self._client = await plain_client(self._url, "remuda up")
        await self._client.subscribe(subjects.STORAGE, cb=self._answer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    def update(self, storage: Storage) -> None:
        self._latest = json.dumps(storage.as_dict()).encode()

    async def publish(self, storage: Storage) -> None:
        self.update(storage)
        with suppress(NatsError):  # the server is away
            await self._client.publish(subjects.STORAGE_CHANGED, self._latest)

    async def _answer(self, message: Msg) -> None:
        with suppress(NatsError):
            await message.respond(self._latest)
