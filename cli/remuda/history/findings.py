"""Counts and differences of a period whose commits are decided again, whatever they are compared with."""

from __future__ import annotations

import msgspec

from ..limits import DIFFERENCES_KEPT


class Difference(msgspec.Struct, frozen=True):
    """A difference in what a commit decides, for people."""

    log_seq: int
    text: str

    def __str__(self) -> str:
        return self.text


class Findings(msgspec.Struct):
    """`commits`: of the period, up to the commit `log_seq` at `at_ms`. `unread`: those of which the archive does not
    have the messages of the inbox; they were not decided again. `different`: how many differences, `by_kind` and in
    sum. `differences`: the first DIFFERENCES_KEPT.
    """

    commits: int = 0
    unread: int = 0
    different: int = 0
    log_seq: int = 0
    at_ms: int = 0
    by_kind: dict[str, int] = {}
    differences: list[Difference] = []

    def note(self, kind: str, difference: Difference) -> None:
        self.different += 1
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1
        if len(self.differences) < DIFFERENCES_KEPT:
            self.differences.append(difference)

    def add(self, other: Findings) -> None:
        """Adds what was found in the commits that follow: every count that both have."""
        for name in set(self.__struct_fields__) & set(other.__struct_fields__) - {"log_seq", "at_ms"}:
            if isinstance(count := getattr(other, name), int):
                setattr(self, name, getattr(self, name) + count)
        self.log_seq, self.at_ms = other.log_seq or self.log_seq, other.at_ms or self.at_ms
        for kind, count in other.by_kind.items():
            self.by_kind[kind] = self.by_kind.get(kind, 0) + count
        self.differences += other.differences[: DIFFERENCES_KEPT - len(self.differences)]
