"""The findings of a shadow as a file: it is rewritten after each interval, and a shadow that starts again goes on from
it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from remuda_bus import subjects

from .findings import Findings


class ShadowReport(Findings, kw_only=True):
    """`against`: what the shadow decides with. `looked`: the commits that were decided again, up to `log_seq`.
    `behind_ms`: at the last look, how old the oldest commit was that was not; 0: there is none. `every`: one commit of
    so many is decided again, because the shadow does not keep up with all. `effect`: the last report of a replay of
    the period (docs/history.md), up to `effect_seq`. `problem`: why it could not go on, as a text."""

    rm: str
    against: str
    looked: int = 0
    behind_ms: int = 0
    every: int = 1
    effect_seq: int = 0
    effect: dict[str, Any] | None = None
    problem: str = ""
    is_over: bool = False

    def take(self, found: Mapping[str, Any]) -> None:
        """Adds what a version has found in the commits that follow. Without a configuration, it looks at each."""
        self.add(msgspec.convert(found, Findings))
        self.looked += found.get("looked", found["commits"])

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
