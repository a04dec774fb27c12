"""make conformance-rest: plays the scenario of each recording, and compares every answer."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..report import COLOURS, shorten
from ..verdict import DIFFERENT, EQUAL, EXPLAINED, FAILED, VERDICTS
from . import recordings
from .compare import Difference, differences
from .kinds import kind_of
from .player import WithPages
from .recordings import Answer, Recorded, Recordings


@dataclass
class Verdict:
    name: str
    word: str
    kinds: Counter[str] = field(default_factory=Counter)
    unexplained: list[Difference] = field(default_factory=list)
    error: str = ""

    def summary(self) -> str:
        return self.error or "; ".join([*map(str, self.unexplained[:3]), *self.kinds])


def judge(found: Recordings) -> list[Verdict]:
    """A verdict for each answer. An exception while the scenario is played fails all of them."""
    try:
        player = WithPages(found.scenario, headers={one.step: one.request.get("headers", {}) for one in found.answers})
        player.play()
    except Exception:  # noqa: BLE001 - whatever it is, it is the result
        return [Verdict(_name(found, one), FAILED, error=traceback.format_exc()) for one in found.answers]
    return [judge_answer(_name(found, one), one, player.answers.get(one.step)) for one in found.answers]


def _name(found: Recordings, one: Recorded) -> str:
    return f"{found.name}/{one.name}" if found.name else one.name


def judge_answer(name: str, recorded: Recorded, ours: Answer | None) -> Verdict:
    if ours is None:
        return Verdict(name, FAILED, error=f"step {recorded.step} of the scenario is no request")
    verdict = Verdict(name, EQUAL)
    for difference in differences(ours, recorded.answer):
        kind = kind_of(recorded, ours, difference)
        if kind is None:
            verdict.unexplained.append(difference)
        else:
            verdict.kinds[kind.name] += 1
    verdict.word = DIFFERENT if verdict.unexplained else EXPLAINED if verdict.kinds else EQUAL
    return verdict


def as_json(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    details = {
        verdict.name: {
            "verdict": verdict.word,
            **({"kinds": list(verdict.kinds)} if verdict.kinds else {}),
            **({"error": verdict.error} if verdict.error else {}),
            **({"first": [str(each) for each in verdict.unexplained[:3]]} if verdict.unexplained else {}),
        }
        for verdict in verdicts
    }
    return json.dumps({"answers": len(verdicts), **{word: counts[word] for word in VERDICTS}, "details": details})


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance-rest", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folders with scenario.json, at any depth")
    parser.add_argument("--name", default="", help="one answer, with all its differences")
    parser.add_argument("--json", action="store_true", help="a last line for machines")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    folders = recordings.folders_in(arguments.dir)
    if not folders:
        console.print(f"skipped: there are no recorded answers in {arguments.dir} (give a folder with DIR=...)")
        return 0
    named = {folder: "" if len(folders) == 1 else str(folder.relative_to(arguments.dir)) for folder in folders}
    verdicts = [one for folder, name in named.items() for one in judge(recordings.read(folder, name))]
    if arguments.name:
        verdicts = [one for one in verdicts if one.name == arguments.name]
        for one in verdicts:
            console.print(f"[bold]{one.name}[/]: {one.word}\n{escape(one.error)}")
            console.print(escape("\n".join(map(str, one.unexplained))))
    shown = Table("answer", "verdict", "why", box=None, pad_edge=False)
    for one in verdicts:
        shown.add_row(one.name, f"[{COLOURS[one.word]}]{one.word}[/]", escape(shorten(one.summary(), 260)))
    counts = Counter(one.word for one in verdicts)
    console.print(shown)
    console.print(f"{len(verdicts)} answers: " + ", ".join(f"{counts[word]} {word}" for word in VERDICTS))
    if arguments.json:
        print(as_json(verdicts))
    return int(any(one.word in (DIFFERENT, FAILED) for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
