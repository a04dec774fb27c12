"""The holdings of an archive, as the names of its objects tell them. Pure.

```
<key of the RM>/log/2026-11-28T19/<first>-<end>.segment   messages of the log from sequence <first> to <end>
<key of the RM>/snapshots/2026-11-28T19/<commit>.snapshot
```

Sequences have 16 digits, so names sort as the log does. The hour is that of the first commit, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from remuda_bus import subjects

_SEGMENT = re.compile(r"(?P<key>[^/]+)/log/(?P<hour>[^/]+)/(?P<first>\d{16})-(?P<end>\d{16})\.segment")
_SNAPSHOT = re.compile(r"(?P<key>[^/]+)/snapshots/(?P<hour>[^/]+)/(?P<seq>\d{16})\.snapshot")
_REPLAY = re.compile(r"[^/]+/replays/[^/]+\.json")
_HOUR = "%Y-%m-%dT%H"


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """`first`, `end`: the stream sequences of its first message of the log, and of its last commit in force. `size`: in
    bytes."""

    first: int
    end: int
    hour: str
    name: str
    size: int


@dataclass(frozen=True, slots=True, order=True)
class Snapshot:
    seq: int
    hour: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """`segments`: in the order of the log; none lies within another. `covered`: segments that lie within another one,
    which a process has made of them before it ended. `foreign`: names that are not the archive's."""

    rm: str
    segments: tuple[Segment, ...]
    snapshots: tuple[Snapshot, ...]
    covered: tuple[Segment, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[Segment | Snapshot, ...]:
        return (*self.segments, *self.covered, *self.snapshots)


def hour_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime(_HOUR)


def segment_name(rm: str, since_ms: int, first: int, end: int) -> str:
    return f"{prefix_of(rm)}log/{hour_of(since_ms)}/{first:016}-{end:016}.segment"


def snapshot_name(rm: str, ms: int, seq: int) -> str:
    return f"{prefix_of(rm)}snapshots/{hour_of(ms)}/{seq:016}.snapshot"


def replay_name(rm: str, key: str) -> str:
    """The report of a replay, which is kept beside the archive and is no part of it."""
    return f"{prefix_of(rm)}replays/{key}.json"


def prefix_of(rm: str) -> str:
    return f"{subjects.key_of(rm)}/"


def holdings_of(rm: str, names: Mapping[str, int]) -> Holdings:
    """`names`: all that begin with `prefix_of(rm)`, with their sizes."""
    segments, snapshots, foreign = [], [], []
    for name, size in names.items():
        if found := _SEGMENT.fullmatch(name):
            segments.append(Segment(int(found["first"]), int(found["end"]), found["hour"], name, size))
        elif found := _SNAPSHOT.fullmatch(name):
            snapshots.append(Snapshot(int(found["seq"]), found["hour"], name, size))
        elif not _REPLAY.fullmatch(name):
            foreign.append(name)
    kept, covered = _outermost(segments)
    return Holdings(rm, kept, tuple(sorted(snapshots)), covered, tuple(sorted(foreign)))


def holdings_of_all(names: Mapping[str, int]) -> list[Holdings]:
    """The holdings of each RM of which an archive has something, sorted. `names`: all names of a store, with their
    sizes."""
    of_rms: dict[str, dict[str, int]] = {}
    for name, size in names.items():
        key, slash, _ = name.partition("/")
        if slash:
            of_rms.setdefault(subjects.rm_of_key(key), {})[name] = size
    return [holdings_of(rm, of_rms[rm]) for rm in sorted(of_rms)]


def _outermost(segments: list[Segment]) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    kept: list[Segment] = []
    covered: list[Segment] = []
    for one in sorted(segments, key=lambda one: (one.first, -one.end, one.name)):
        (covered if kept and one.end <= kept[-1].end else kept).append(one)
    return tuple(kept), tuple(covered)
