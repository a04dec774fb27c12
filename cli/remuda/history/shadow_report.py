"""The findings of a shadow as a file: it is rewritten after each interval, and a shadow that starts again goes on from
it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from remuda_bus import subjects

from ..limits import DIFFERENCES_KEPT

_COUNTS: Final = ("commits", "looked", "unread", "different")


class ShadowReport(msgspec.Struct):
    """`against`: what the shadow decides with. `log_seq`, `at_ms`: the last commit that was decided again.
    `behind_ms`: at the last look, how old the oldest commit was that was not; 0: there is none. `every`: one commit of
    so many is decided again, because the shadow does not keep up with all. `by_kind`: how many decisions differ.
    `differences`: the first DIFFERENCES_KEPT, each with `log_seq` and `text`. `effect`: the last report of a replay of
    the period (docs/history.md), up to `effect_seq`. `problem`: why it could not go on, as a text."""

    rm: str
    against: str
    log_seq: int = 0
    at_ms: int = 0
    behind_ms: int = 0
    every: int = 1
    commits: int = 0
    looked: int = 0
    unread: int = 0
    different: int = 0
    by_kind: dict[str, int] = {}
    differences: list[dict[str, Any]] = []
    effect_seq: int = 0
    effect: dict[str, Any] | None = None
    problem: str = ""
    is_over: bool = False

    def add(self, found: Mapping[str, Any]) -> None:
        """Add what was found in the commits that follow."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + found.get(name, found["commits"] if name == "looked" else 0))
        for kind, count in found["by_kind"].items():
            self.by_kind[kind] = self.by_kind.get(kind, 0) + count
        self.differences += found["differences"][: DIFFERENCES_KEPT - len(self.differences)]
        self.log_seq, self.at_ms = found["log_seq"] or self.log_seq, found["at_ms"] or self.at_ms

    def summary(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        every = f", one of {self.every} decided again" if self.every > 1 else ""
        behind = f"; {self.behind_ms / 1_000:,.0f} s behind" if self.behind_ms else ""
        problem = f"; {self.problem}" if self.problem else ""
        return f"{self.commits:,} commits followed{every}: {kinds or 'no difference'}{behind}{problem}"


def path_of(directory: Path, rm: str) -> Path:
    return directory / "reports" / f"{subjects.key_of(rm)}.json"


def read(path: Path) -> ShadowReport | None:
    """None: there is none. Raises ValueError for a file that is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ShadowReport)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path}: expected the report of a shadow: {error}") from None


def write(path: Path, report: ShadowReport) -> None:
    """Readers see this one or the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(report))
    os.replace(part, path)
