"""make mutants: breaks one rule after the other, and looks whether a golden scenario or a law notices.

python -m tests.mutants                    all, several at a time
python -m tests.mutants --sample 12        some, chosen by --seed
python -m tests.mutants --only fence       those whose name has this in it
python -m tests.mutants --table FILE       writes which test kills each, as a table in Markdown
python -m tests.mutants --list             prints all with the rules that they break, and runs no tests
python -m tests.mutants --tell NAME        what the scenario that notices shows, or that none does
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .forecasts import SECTION as FORECASTS
from .ledger import SECTION as LEDGER
from .mutants import MUTANTS
from .mutate import ROOT, Mutant, put_in
from .peloton import SECTION as PELOTON
from .table import GOLDEN, LAWS, Fate, named, table

# Where no scenario notices: the laws of the rule's section before all others.
LAWS_OF_SECTION = {
    "10": "tests/property/test_predicate_classes.py", "20": "tests/property/test_devices.py",
    "21": "tests/property/test_topology.py", "22": "tests/property/test_backfill.py",
    "23": "tests/property/test_memory.py", "24": "tests/property/test_leaving.py",
    "25": "tests/property/test_spending.py", "26": "tests/property/test_calendar.py",
    "27": "tests/property/test_loans.py",
}  # fmt: skip
LAW_TESTS = ("tests/property/test_laws.py", "tests/property")
# Of rules that no scenario shows: these tests in place of the others.
TESTS_WITHOUT_SCENARIOS = {
    PELOTON: tuple(
        f"integrations/peloton/tests/test_{name}.py" for name in ("laws", "whole_gangs", "reconcile", "reserved_hosts")
    ),
    FORECASTS: ("services/core/tests/test_forecasts.py",),
    LEDGER: (
        "services/events/tests/test_ledger.py", "operations/tests/test_ledger.py",
        "services/events/tests/test_ledger_follower.py", "tests/property/test_ledger.py",
    ),
}  # fmt: skip
WITHIN_S = 1800.0  # all scenarios, or all laws, on a busy machine
LAW_WITHIN_S = 300  # a broken rule may keep a law going for ever
STAGES = (("--play", GOLDEN), ("--laws", LAWS))
# Exit codes. Other errors end a process with other codes.
NOTICED, UNNOTICED = 10, 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="only so many")
    parser.add_argument("--seed", default="", help="which, of a sample")
    parser.add_argument("--only", default="", help="only those whose name has this in it")
    parser.add_argument("--table", type=Path, help="write the test that kills each into this file")
    parser.add_argument("--list", action="store_true", help="print all with the rules that they break; run no tests")
    parser.add_argument("--golden", action="store_true", help="scenarios only, no laws")
    parser.add_argument("--tell", default="", help="one, with what the scenario shows")
    parser.add_argument("--play", default="", help=argparse.SUPPRESS)
    parser.add_argument("--laws", default="", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.list:
        print(table(MUTANTS, {}), end="")
        return 0
    if arguments.tell or arguments.play:
        return play(named(arguments.tell or arguments.play), in_full=bool(arguments.tell))
    if arguments.laws:
        return obey(named(arguments.laws))
    if run("--play", "unbroken").returncode != UNNOTICED:
        print("a golden scenario fails in the code as it is: make test ARGS=tests/golden", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.name]
    if arguments.sample:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    fates = fates_of(chosen, STAGES[:1] if arguments.golden else STAGES, arguments.workers)
    survived = [name for name, fate in fates.items() if not fate.by]
    for name in survived:
        print(f"survived: {name}")
    print(f"{len(fates)} mutants, {len(fates) - len(survived)} killed, {len(survived)} survived")
    if arguments.table:
        arguments.table.write_text(table(MUTANTS, fates))
    return int(bool(survived))


def fates_of(chosen: Sequence[Mutant], stages: Sequence[tuple[str, str]], at_once: int) -> dict[str, Fate]:
    """Of each by its name; said as soon as it is known."""
    fates = {}
    with ThreadPoolExecutor(at_once) as workers:
        started = {workers.submit(fate_of, mutant, stages): mutant.name for mutant in chosen}
        for done in as_completed(started):
            fate, seconds = done.result()
            fates[started[done]] = fate
            print(f"{started[done]:40} {seconds:5.1f} s  {fate}", flush=True)
    return fates


def fate_of(mutant: Mutant, stages: Sequence[tuple[str, str]]) -> tuple[Fate, float]:
    started = time.monotonic()
    fate = Fate("", "")
    for option, by in stages:
        try:
            done = run(option, mutant.name)
        except subprocess.TimeoutExpired:
            if by == GOLDEN:
                fate = Fate(by, f"nothing ends within {WITHIN_S:.0f} s")
            break  # laws have their own limits, so there nothing is known
        if done.returncode == NOTICED:
            fate = Fate(by, done.stdout.splitlines()[-1])
            break
        if done.returncode != UNNOTICED:
            how = f"{option} ended with {done.returncode}\n{done.stdout}{done.stderr}"
            raise RuntimeError(f"mutant {mutant.name}: {how}")
    return fate, time.monotonic() - started


def run(option: str, name: str) -> subprocess.CompletedProcess[str]:
    """In a process that has imported nothing of the core yet."""
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants", option, name],
        cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False,
        env={**os.environ, "HYPOTHESIS_PROFILE": "mutants"},
    )  # fmt: skip


def play(mutant: Mutant | None, *, in_full: bool) -> int:
    """The golden scenarios, those of the rule's section first, until one shows something else. Prints which."""
    if mutant is not None:
        put_in(mutant)
    from . import scenarios

    noticed = scenarios.first_that_differs(mutant.section if mutant is not None else "", in_full)
    print(noticed or "no scenario notices")
    return NOTICED if noticed else UNNOTICED


def obey(mutant: Mutant | None) -> int:
    """The laws, until one is broken. Prints which."""
    assert mutant is not None, "laws are asked of mutants only"
    put_in(mutant)
    import pytest

    failed: list[str] = []

    class Plugin:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            items.sort(key=lambda item: not item.nodeid.startswith(laws[0]))

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    first = LAWS_OF_SECTION.get(mutant.section, LAW_TESTS[0])
    laws = TESTS_WITHOUT_SCENARIOS.get(mutant.section, (first, *LAW_TESTS))
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--timeout={LAW_WITHIN_S}")
    code = pytest.main([*options, *laws], plugins=[Plugin()])
    print("\n" + (failed[0] if failed else "no law notices"))
    return NOTICED if failed else int(code)


if __name__ == "__main__":
    sys.exit(main())
