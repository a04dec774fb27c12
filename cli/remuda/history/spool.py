"""The part of an archive that a replay has read, in a directory of its own: events in order, and run times by ask; and
what its variants have found of each application.

A week has millions of each, and a replay needs one event at a time, and the run time of what starts. So it does not
keep them in memory. The directory is deleted with the last reader.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from contextlib import closing
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from remuda_core.commands import Command

# Events, run times and applications that are written at once.
_AT_ONCE: Final = 5_000
_LENGTH: Final = 4
# Pages of run times that are in memory, in KiB.
_CACHE_KIB: Final = 32 * 1024
# Run times that are read at once, because asks start in about the order in which they came, and how many are kept.
_AHEAD: Final = 100
_AHEAD_MOST: Final = 10_000
Difference = tuple[str, float]  # an application, and its mean wait after without that before, in ms
# Bits of a value in a sample: a time in ms.
_VALUE_BITS: Final = 48


class Event(NamedTuple):
    """`queue`: of an application that is submitted, where it was placed; "": it was refused. `until_done`: of one that
    is removed, whether it had nothing left then: the RM sends it when its work is done. `work`: the number of an ask,
    by which its run times are found; 0: it was refused."""

    at_ms: int
    command: Command
    queue: str = ""
    until_done: bool = False
    work: int = 0


class Run(NamedTuple):
    """`ms`: how long an allocation ran. `over`: it ended by itself then; else it would have run longer."""

    ms: int
    over: bool


class Sample:
    """A sample of at most `most` values of a series, chosen by the hashes of their names: as good as any other sample,
    and the same each time."""

    __slots__ = ("_chosen", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._chosen: list[int] = []  # a heap of -hash and value in one number: the largest hash first

    def add(self, name: object, value: int) -> None:
        entry = (-crc32(repr(name).encode()) << _VALUE_BITS) | value
        if len(self._chosen) < self._most:
            heappush(self._chosen, entry)
        else:
            heappushpop(self._chosen, entry)

    def values(self) -> array[int]:
        """Sorted."""
        return array("q", sorted(entry & (1 << _VALUE_BITS) - 1 for entry in self._chosen))


class Spool:
    """The events and runs of a period, in files: written first, until `finish`, and then read, by forked children,
    too."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="remuda-replay-")
        path = Path(self._directory.name)
        self._events_path, self._runs_path = path / "events", path / "runs"
        self._events: list[Event] = []
        self._runs: list[tuple[int, int, int, bool]] = []
        self._numbers = count()
        self._file = self._events_path.open("wb")
        self._database = _with_table(
            self._runs_path, "runs (work INTEGER, number INTEGER, ms INTEGER, over INTEGER, PRIMARY KEY (work, number))"
        )
        self._reader: tuple[int, sqlite3.Connection] | None = None  # of this process
        # Run times that were read, of late and before; None: there is none.
        self._ahead: dict[tuple[int, int], Run | None] = {}
        self._ahead_before: dict[tuple[int, int], Run | None] = {}

    def add_event(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= _AT_ONCE:
            self._write_events()

    def add_run(self, work: int, number: int, run: Run) -> None:
        """The `number`-th allocation of the ask `work`, from 0. The last one that is given counts."""
        self._runs.append((work, number, run.ms, run.over))
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

    def run_of(self, work: int, number: int) -> Run | None:
        key = work, number
        if key not in self._ahead:
            if key in self._ahead_before:
                return self._ahead_before[key]
            self._read_ahead(work, number)
        return self._ahead[key]

    def _read_ahead(self, work: int, number: int) -> None:
        if self._reader is None or self._reader[0] != os.getpid():
            connection = sqlite3.connect(f"file:{self._runs_path}?mode=ro&immutable=1", uri=True)
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._reader = os.getpid(), connection
        if len(self._ahead) > _AHEAD_MOST:
            self._ahead, self._ahead_before = {}, self._ahead
        self._ahead[work, number] = None
        for found_work, found_number, ms, over in self._reader[1].execute(
            "SELECT work, number, ms, over FROM runs WHERE (work, number) >= (?, ?) ORDER BY work, number LIMIT ?",
            (work, number, _AHEAD),
        ):
            self._ahead[found_work, found_number] = Run(ms, bool(over))

    def new_waits(self) -> Path:
        """A place for the waits of applications of one more variant."""
        return self._events_path.with_name(f"waits-{next(self._numbers)}")


class ApplicationWaits:
    """The waits of applications, in a file. The process that plays adds each application once that has ended."""

    def __init__(self, path: Path) -> None:
        self._rows: list[tuple[str, float, int]] = []
        self._database = _with_table(path, "waits (application TEXT PRIMARY KEY, total REAL, count INTEGER)")

    def add(self, application: str, total_ms: float, asks: int) -> None:
        """An application whose ID comes again is the same."""
        self._rows.append((application, total_ms, asks))
        if len(self._rows) >= _AT_ONCE:
            self._write()

    def finish(self) -> None:
        self._write()
        self._database.close()

    def _write(self) -> None:
        self._database.executemany(
            "INSERT INTO waits VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET total = total + excluded.total, count = count + excluded.count",
            self._rows,
        )
        self._database.commit()
        self._rows.clear()


def _with_table(path: Path, table: str) -> sqlite3.Connection:
    """A new database, which nobody needs after a crash."""
    database = sqlite3.connect(path)
    database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; CREATE TABLE {table} WITHOUT ROWID")
    return database


def write_means(path: Path, means: Mapping[str, float]) -> None:
    """Mean waits in ms that another version has found."""
    waits = ApplicationWaits(path)
    for application, ms in means.items():
        waits.add(application, ms, 1)
    waits.finish()


def means_of(path: Path) -> dict[str, float]:
    """The mean waits in ms, by application."""
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT application, total / count FROM waits"))


def largest_differences(before: Path, after: Path, most: int) -> tuple[list[Difference], list[Difference]]:
    """The applications whose mean waits have become shorter by most, and longer."""
    with closing(sqlite3.connect(after)) as database:
        database.execute("ATTACH ? AS before", (str(before),))
        found = (
            "SELECT application, n.total / n.count - b.total / b.count AS ms"
            " FROM waits AS n JOIN before.waits AS b USING (application)"
        )
        shorter = database.execute(f"{found} WHERE ms < 0 ORDER BY ms, application LIMIT ?", (most,))
        longer = database.execute(f"{found} WHERE ms > 0 ORDER BY ms DESC, application DESC LIMIT ?", (most,))
        return shorter.fetchall(), longer.fetchall()
