"""Compares what is expected with what came out: everything that is named, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

TOLERANCE = 1e-6


class Difference(NamedTuple):
    where: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.ours!r}, expected {self.theirs!r}"


def subset(where: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    """None: not set. An empty list: empty. Of an object, the fields that are named."""
    if theirs is None:
        if ours not in (None, {}, []):
            yield Difference(where, ours, theirs)
    elif isinstance(theirs, dict):
        if not isinstance(ours, dict):
            yield Difference(where, ours, theirs)
            return
        for name, value in theirs.items():
            yield from subset(f"{where}.{name}", ours.get(name), value)
    elif isinstance(theirs, list):
        if len(ours or []) != len(theirs):
            yield Difference(where, ours, theirs)
            return
        for place, value in enumerate(theirs):
            yield from subset(f"{where}[{place}]", ours[place], value)
    else:
        yield from equal(where, ours, theirs)


def equal(where: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    numbers = (int, float)
    if isinstance(ours, numbers) and isinstance(theirs, numbers) and not isinstance(theirs, bool):
        if abs(ours - theirs) > TOLERANCE:
            yield Difference(where, ours, theirs)
    elif isinstance(theirs, int) and isinstance(ours, str):  # protobuf-JSON writes 64 bits as text
        if ours != str(theirs):
            yield Difference(where, ours, theirs)
    elif ours != theirs and not (not theirs and ours is None):  # protobuf-JSON leaves default values out
        yield Difference(where, ours, theirs)
