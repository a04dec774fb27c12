"""The suites of tests, and who plays them when.

python -m tests.suites ci                   the tiers; of each other suite a smoke, in full those that are due
python -m tests.suites everything [NAME...]  all suites in full, or those named; writes .ci/full.json
python -m tests.suites needs PROGRAM...      says which programs are missing, and how to get them
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from .plan import Choice, Passed, choose, record, recorded
from .play import Outcome, play
from .suite import ROOT, read

# How long a run of `ci` may take: suites that are due in full are played as far as they fit.
# Nothing goes on after twice that.
CI_S = 60.0 * float(os.environ.get("REMUDA_CI_MINUTES", "40"))
PACKAGES = {"node": "nodejs npm"}
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("ci").set_defaults(do=lambda _: ci())
    everything_of = commands.add_parser("everything")
    everything_of.add_argument("names", nargs="*")
    everything_of.set_defaults(do=lambda given: everything(given.names))
    needs_of = commands.add_parser("needs")
    needs_of.add_argument("programs", nargs="+")
    needs_of.set_defaults(do=lambda given: needs(given.programs))
    given = parser.parse_args()
    return int(given.do(given))


def ci() -> int:
    started, commit = time.monotonic(), head()
    suites, passed = read(), recorded()
    tiers = [Choice(suite, due=True, full=True) for suite in suites if suite.always]
    outcomes: list[Outcome] = []
    for tier in tiers:
        outcomes += play([tier], commit, started + 2 * CI_S)
    others = [suite for suite in suites if not suite.always]
    trees = {suite.name: suite.tree() for suite in others}
    choices = choose(others, slower(passed, outcomes), trees, commit, CI_S - (time.monotonic() - started))
    outcomes += play(choices, commit, started + 2 * CI_S)
    return report(outcomes, time.monotonic() - started)


def slower(passed: dict[str, Passed], outcomes: Sequence[Outcome]) -> dict[str, Passed]:
    """What suites will take on this machine in this hour, by what the tiers have just taken."""
    known = [outcome for outcome in outcomes if outcome.choice.suite.name in passed]
    took = sum(outcome.seconds for outcome in known)
    usual = sum(passed[outcome.choice.suite.name].seconds for outcome in known)
    factor = max(1.0, took / usual) if usual else 1.0
    return {name: replace(one, seconds=one.seconds * factor) for name, one in passed.items()}


def everything(names: Sequence[str]) -> int:
    """In full; a suite that passes at the first try is recorded with the commit."""
    started, commit, passed = time.monotonic(), head(), recorded()
    suites = [suite for suite in read() if not names or any(name in suite.name for name in names)]
    changed = git("status", "--porcelain").strip()
    if changed:
        print(f"these changes are in no commit, so nothing will be recorded:\n{changed}", file=sys.stderr)
    outcomes: list[Outcome] = []
    for outcome in play([Choice(suite, due=True, full=True) for suite in suites], commit):
        outcomes.append(outcome)
        suite = outcome.choice.suite
        if outcome.passed and not outcome.flaky and not outcome.skipped and not changed:
            passed[suite.name] = Passed(commit, suite.tree(), round(outcome.seconds))
            record(passed)
    return report(outcomes, time.monotonic() - started)


def report(outcomes: Sequence[Outcome], seconds: float) -> int:
    """How what has failed ended, so that the last page of a log says why; the table, the names of what has failed, and
    last of all what has passed only when it was tried again."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        print(f"\n=== {outcome.choice.suite.name} failed; the end of its output:\n{outcome.end}")
    table = Table("suite", "smoke or full", "seconds", "tests", "", box=None, pad_edge=False)
    for outcome in outcomes:
        said = f"skipped: {outcome.skipped}" if outcome.skipped else "" if outcome.passed else "FAILED"
        row = (outcome.choice.suite.name, outcome.choice.word, f"{outcome.seconds:.0f}", str(outcome.tests), said)
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)
    for outcome in failed:
        for name in outcome.failed or (outcome.choice.suite.name,):
            print(f"failed: {name}")
    print(f"{seconds / 60:.0f} min {seconds % 60:.0f} s")
    print(f"{sum(outcome.tests for outcome in outcomes)} passed, {len(failed)} failed")
    for name in (name for outcome in outcomes for name in outcome.flaky):
        print(f"flaky: {name}")
    return int(bool(failed))


def needs(programs: Sequence[str]) -> int:
    missing = [name for name in programs if shutil.which(name, path=SYSTEM_PATH) is None]
    if missing:
        packages = " ".join(PACKAGES.get(name, name) for name in missing)
        print(f"missing: {', '.join(missing)}; their tests are skipped. To get them: apt-get install {packages}")
    return 0


def head() -> str:
    return git("rev-parse", "HEAD").strip()


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
