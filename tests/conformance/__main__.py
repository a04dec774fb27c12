"""make conformance: plays what the reference was asked, and says where our answers differ. See README.md beside this
file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from . import in_process, over_grpc, over_nats, recording, report
from .verdict import DIFFERENT, FAILED, judge, judge_ends

PLAYERS = {
    "core": (judge, in_process.play),
    "nats": (judge_ends, over_nats.play),
    "grpc": (judge_ends, over_grpc.play),
}


def main() -> int:
    arguments = read_arguments()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if not recording.is_folder(arguments.dir):
        console.print(f"skipped: there are no recordings in {arguments.dir} (give a folder with DIR=...)")
        return 0
    if arguments.name and arguments.name not in recording.names_in(arguments.dir):
        console.print(f"there is no scenario {arguments.name!r} in {arguments.dir}")
        return 2
    names = [arguments.name] if arguments.name else recording.names_in(arguments.dir)
    how, player = PLAYERS[arguments.via]
    verdicts = [how(recording.read(arguments.dir, name), player, arguments.compatibility) for name in names]
    if arguments.name:
        report.story(console, verdicts[0], arguments.steps)
    else:
        console.print(report.table(verdicts))
        console.print(report.totals(verdicts))
    if arguments.json:
        print(report.as_json(verdicts))
    if arguments.blind is not None and report.blind_share(verdicts) > arguments.blind:
        console.print(f"[bold red]more than {arguments.blind:.0%} of all steps are compared with nothing[/]")
        return 1
    return int(any(verdict.word in (DIFFERENT, FAILED) for verdict in verdicts))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="scenarios/, traces/, determinism.json")
    parser.add_argument("--name", default="", help="one scenario, step by step")
    parser.add_argument("--steps", type=int, default=3, help="how many differing steps of it are shown in full")
    parser.add_argument("--json", action="store_true", help="a last line for machines")
    parser.add_argument("--blind", type=float, help="fail if a larger share of all steps is compared with nothing")
    parser.add_argument(
        "--via", choices=tuple(PLAYERS), default="core", help="nats, grpc: the whole system, in real time"
    )
    parser.add_argument("--compatibility", default=in_process.COMPATIBILITY, help="none: with our own rules")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
