"""Notes of a translation: what the draft does not hold as its source has it, where that is, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from .. import limits


class Kind(StrEnum):
    """`NONE`: without a counterpart. `NEAR`: the draft has something similar. `ELSEWHERE`: another place has it, such
    as remuda.yaml, the resource manager or the job."""

    NONE = "no counterpart"
    NEAR = "similar"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Note:
    """Something of the source that the draft does not have as it was. `where`: `file:line`, or the name of an object
    where the source has no lines. `instead`: what to do.
    """

    kind: Kind
    where: str
    what: str
    why: str
    instead: str

    def __str__(self) -> str:
        end = "" if self.why.endswith("?") else "."
        return f"{self.where}: {self.what}: {self.kind}: {self.why}{end} {self.instead}"

    def document(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


@dataclass(slots=True)
class Notes:
    """Collects notes, each once. They are read in the order of their places."""

    _found: dict[Note, None] = field(default_factory=dict)

    def none(self, where: str, what: str, why: str, instead: str) -> None:
        self._add(Kind.NONE, where, what, why, instead)

    def near(self, where: str, what: str, why: str, instead: str) -> None:
        self._add(Kind.NEAR, where, what, why, instead)

    def elsewhere(self, where: str, what: str, why: str, instead: str) -> None:
        self._add(Kind.ELSEWHERE, where, what, why, instead)

    def _add(self, kind: Kind, *texts: str) -> None:
        self._found[Note(kind, *map(_line, texts))] = None

    def __iter__(self) -> Iterator[Note]:
        return iter(sorted(self._found, key=_position))

    def __len__(self) -> int:
        return len(self._found)


def _position(note: Note) -> tuple[str, int]:
    file, _, line = note.where.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (note.where, 0)


def _line(text: str) -> str:
    """Names of the source may contain anything."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= limits.LONGEST_NOTE_CHARACTERS else f"{text[: limits.LONGEST_NOTE_CHARACTERS]}..."
