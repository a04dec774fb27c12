"""The part of an archive that a replay has read, in a directory of its own: events in order, and run times by ask.

A week has millions of both, and a replay needs one event at a time, and the run time of what starts. So it does not
keep them in memory. The directory is deleted with the last reader.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from remuda_core.commands import Command

Key = tuple[str, str, str]  # partition, application, allocation key
# Events and run times that are written at once.
_AT_ONCE: Final = 5_000
_LENGTH: Final = 4
# Pages of run times that are in memory, in KiB.
_CACHE_KIB: Final = 32 * 1024
_SEPARATOR: Final = "\0"


class Event(NamedTuple):
    """`queue`: of an application that is submitted, where it was placed; "": it was refused. `until_done`: of one that
    is removed, whether it had nothing left then: the RM sends it when its work is done."""

    at_ms: int
    command: Command
    queue: str = ""
    until_done: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """`ms`: how long an allocation ran. `over`: it ended by itself then; else it would have run longer."""

    ms: int
    over: bool


class Sample:
    """At most `most` values of a series, chosen by the hashes of their names: as good as any other, and the same each
    time."""

    __slots__ = ("_chosen", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._chosen: list[tuple[int, int]] = []  # a heap: the largest hash first

    def add(self, name: object, value: int) -> None:
        entry = -crc32(repr(name).encode()), value
        if len(self._chosen) < self._most:
            heappush(self._chosen, entry)
        else:
            heappushpop(self._chosen, entry)

    def values(self) -> list[int]:
        """Sorted."""
        return sorted(value for _, value in self._chosen)


class Spool:
    """It is written first, until `finish`, and read then, by forked children, too."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="remuda-replay-")
        path = Path(self._directory.name)
        self._events_path, self._runs_path = path / "events", path / "runs"
        self._events: list[Event] = []
        self._runs: list[tuple[str, int, int, bool]] = []
        self._file = self._events_path.open("wb")
        self._database = sqlite3.connect(self._runs_path)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE runs (ask TEXT, number INTEGER, ms INTEGER, over INTEGER, PRIMARY KEY (ask, number))"
            " WITHOUT ROWID"
        )
        self._reader: tuple[int, sqlite3.Connection] | None = None  # of this process

    def add_event(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= _AT_ONCE:
            self._write_events()

    def add_run(self, key: Key, number: int, run: Run) -> None:
        """The `number`-th allocation of an ask, from 0. The last one that is given counts."""
        self._runs.append((_SEPARATOR.join(key), number, run.ms, run.over))
        if len(self._runs) >= _AT_ONCE:
            self._write_runs()

    def finish(self) -> None:
        self._write_events()
        self._write_runs()
        self._file.close()
        self._database.close()

    def _write_events(self) -> None:
        packed = pickle.dumps(self._events, pickle.HIGHEST_PROTOCOL)
        self._file.write(len(packed).to_bytes(_LENGTH, "big") + packed)
        self._events.clear()

    def _write_runs(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", self._runs)
        self._database.commit()
        self._runs.clear()

    def events(self) -> Iterator[Event]:
        with self._events_path.open("rb") as file:
            while length := int.from_bytes(file.read(_LENGTH), "big"):
                yield from pickle.loads(file.read(length))  # noqa: S301 - this process has written it

    def run_of(self, key: Key, number: int) -> Run | None:
        if self._reader is None or self._reader[0] != os.getpid():
            connection = sqlite3.connect(f"file:{self._runs_path}?mode=ro&immutable=1", uri=True)
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._reader = os.getpid(), connection
        found = self._reader[1].execute(
            "SELECT ms, over FROM runs WHERE ask = ? AND number = ?", (_SEPARATOR.join(key), number)
        ).fetchone()  # fmt: skip
        return Run(found[0], bool(found[1])) if found is not None else None
