"""make conformance-peloton: plays the tables of Peloton's own tests, and says where our answers differ. See README.md
beside this file."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from integrations.peloton.tests.conformance import admission_played, rpc_played, rules_played
from integrations.peloton.tests.conformance.compare import Difference
from integrations.peloton.tests.conformance.tables import Case, files_in, read
from tests.conformance.report import COLOURS
from tests.conformance.verdict import DIFFERENT, EQUAL, FAILED, VERDICTS

PLAYERS: dict[str, Callable[[Case], rules_played.Differences]] = {
    "entitlement": rules_played.entitlement,
    "admission": admission_played.play,
    "validation": rules_played.validation,
    "ranker": rules_played.ranker,
    "scorer": rules_played.scorer,
    "transition": rules_played.transition,
    "rpc": rpc_played.play,
}


class Verdict(NamedTuple):
    case: Case
    word: str
    differences: list[Difference]
    error: str = ""


def judge(case: Case, via: str = "core") -> Verdict:
    """`via`: grpc: the kind rpc over a real server."""
    player = rpc_played.play_over_grpc if (via, case.kind) == ("grpc", "rpc") else PLAYERS[case.kind]
    try:
        differences = list(player(case))
    except Exception:  # noqa: BLE001 - whatever it is, it is the verdict on this case
        return Verdict(case, FAILED, [], traceback.format_exc())
    return Verdict(case, DIFFERENT if differences else EQUAL, differences)


def main() -> int:
    arguments = read_arguments()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    files = files_in(arguments.dir) if arguments.dir.is_dir() else []
    if not files:
        console.print(f"skipped: there are no tables in {arguments.dir} (give a folder with DIR=...)")
        return 0
    cases = [case for path in files for case in read(path) if arguments.name in ("", case.name)]
    if not cases:
        console.print(f"there is no case {arguments.name!r} in {arguments.dir}")
        return 2
    verdicts = [judge(case, arguments.via) for case in cases]
    console.print(_table(verdicts))
    for verdict in verdicts if arguments.name else ():
        console.print("\n".join(map(str, verdict.differences)) + verdict.error, markup=False)
    counts = Counter(verdict.word for verdict in verdicts)
    console.print(f"{len(verdicts)} cases: " + ", ".join(f"{counts[word]} {word}" for word in VERDICTS))
    if arguments.json:
        print(_as_json(verdicts))
    return int(any(verdict.word in (DIFFERENT, FAILED) for verdict in verdicts))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance-peloton", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="tables, one JSON file of each kind")
    parser.add_argument("--name", default="", help="one case, with all that differs")
    parser.add_argument("--json", action="store_true", help="a last line for machines")
    parser.add_argument("--via", choices=("core", "grpc"), default="core", help="grpc: RPCs over a real server")
    return parser.parse_args()


def _table(verdicts: list[Verdict]) -> Table:
    shown = Table("kind", "case", "verdict", "why", box=None, pad_edge=False)
    for verdict in verdicts:
        why = str(verdict.differences[0]) if verdict.differences else verdict.error.strip().rpartition("\n")[2]
        word = Text(verdict.word, COLOURS[verdict.word])
        shown.add_row(verdict.case.kind, escape(verdict.case.name), word, escape(why[:120]))
    return shown


def _as_json(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    cases = [
        {
            "kind": verdict.case.kind,
            "name": verdict.case.name,
            "verdict": verdict.word,
            "differences": [str(one) for one in verdict.differences],
            **({"error": verdict.error} if verdict.error else {}),
        }
        for verdict in verdicts
    ]
    return json.dumps({"total": len(verdicts), **{word: counts[word] for word in VERDICTS}, "cases": cases})


if __name__ == "__main__":
    sys.exit(main())
