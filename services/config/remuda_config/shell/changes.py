"""A version that was accepted, changes by operators, and what a staged version falls back to."""

from __future__ import annotations

import time
from dataclasses import dataclass

from remuda_config import limits
from remuda_config.problems import Invalid
from remuda_config.shell.version_store import StoredVersion, VersionStore
from remuda_config.shell.worker_pool import WorkerPool
from remuda_config.versions import API, Origin, Version
from remuda_proto.remuda.v1 import config_pb2


@dataclass(frozen=True, slots=True)
class AcceptedText:
    """The version in force, and its configuration."""

    stored: StoredVersion
    configuration: config_pb2.Configuration

    @property
    def text(self) -> str:
        return self.stored.text

    @property
    def version(self) -> Version:
        return self.stored.version

    @property
    def number(self) -> int:
        return self.stored.version.number


@dataclass(frozen=True, slots=True)
class Change:
    """A change by an operator.

    `base`: the number of the version that it was made from, if it names one. `until_ms`: the change is staged until
    then. `overwrites`: the change also replaces content of the file that is not in force.
    """

    by: str
    message: str = ""
    origin: Origin = API
    base: int | None = None
    restores: int = 0
    until_ms: int = 0
    overwrites: bool = False


def now_ms() -> int:
    return int(time.time() * 1_000)


class NoFallback(Exception):
    """A staged version cannot be rolled back. It stays in force until it is confirmed or replaced."""


async def fallback_of(staged: AcceptedText, versions: VersionStore, pool: WorkerPool) -> AcceptedText:
    """The version that is restored when the time of the staged one is over. Raises NoFallback."""
    number = staged.version.falls_back_to
    before = await versions.find(number)
    if before is None:
        raise NoFallback(f"version {number} is no longer kept")
    try:
        return AcceptedText(before, await pool.load(before.text, before.version.source, limits.LOAD_FILE_CPU_S))
    except Invalid as error:
        raise NoFallback(f"version {number} is refused by this version of remuda: {error}") from None


async def has_fallback(staged: AcceptedText, versions: VersionStore, pool: WorkerPool) -> bool:
    try:
        await fallback_of(staged, versions, pool)
    except NoFallback:
        return False
    return True
