"""Plays lines of suites as processes. Reads from their output what has failed, and how many tests ran."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from .plan import AT_ONCE, Choice
from .suite import ROOT

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
COUNTED = re.compile(r"\b(\d[\d,]*) (?:passed|seeds from|mutants,|scenarios:|configurations:|answers:|cases:)")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# On a slow or busy machine: what is tried again may take longer before a deadline is missed.
AGAIN = {"AGAIN": "--last-failed -p no:xdist", "WORKERS": "0", "REMUDA_PATIENCE": "4", "PYTEST_TIMEOUT": "480"}
END_LINES = 30
_printing = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """`flaky`: the tests that passed only when they were tried again; the name of the suite where it has no tests.
    `end`: the last lines that it wrote."""

    choice: Choice
    passed: bool
    seconds: float
    tests: int = 0
    failed: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    skipped: str = ""
    end: str = ""


def play(choices: Iterable[Choice], commit: str, ends: float = math.inf) -> Iterator[Outcome]:
    """Outcomes as they come: of suites that run beside others, then of those that are alone, then of second tries. What
    still runs at `ends`, on the monotonic clock, is killed and has failed."""
    failed = []
    for outcome in _first_tries(list(choices), commit, ends):
        if outcome.passed or outcome.choice.suite.once:
            yield outcome
        else:
            failed.append(outcome)
    for outcome in failed:
        yield _again(outcome, commit, ends)


def _first_tries(choices: Sequence[Choice], commit: str, ends: float) -> Iterator[Outcome]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        beside = [pool.submit(_played, choice, commit, ends) for choice in choices if not choice.suite.alone]
        for done in as_completed(beside):
            yield done.result()
    for choice in choices:
        if choice.suite.alone:
            yield _played(choice, commit, ends)


def _again(first: Outcome, commit: str, ends: float) -> Outcome:
    second = _played(first.choice, commit, ends, AGAIN)
    flaky = (first.failed or (first.choice.suite.name,)) if second.passed else ()
    return replace(second, seconds=first.seconds + second.seconds, tests=first.tests + second.tests, flaky=flaky)


def _played(choice: Choice, commit: str, ends: float, more: dict[str, str] | None = None) -> Outcome:
    suite, name = choice.suite, choice.suite.name + (", once more" if more else "")
    if suite.needs:
        code, output, _ = run(suite.needs, suite.within_s)
        if code:
            reason = (output.strip().splitlines() or ["it cannot be had"])[-1]
            return Outcome(choice, passed=True, seconds=0, skipped=reason)
    _say(f"--- {name} ({choice.word}) begins")
    within_s = max(1.0, min(suite.within_s, ends - time.monotonic()))
    code, output, seconds = run(suite.line(choice.full, commit), within_s, more)
    _say(f"\n=== {name} ({choice.word}): {'passed' if code == 0 else f'exit {code}'} after {seconds:.0f} s\n{output}")
    plain = ANSI.sub("", output)
    counts = [int(number.replace(",", "")) for number in COUNTED.findall(plain)]
    failed, end = tuple(dict.fromkeys(FAILED.findall(plain))), "\n".join(plain.splitlines()[-END_LINES:])
    return Outcome(choice, code == 0, seconds, sum(counts), failed, end=end)


def _say(text: str) -> None:
    with _printing:
        print(text, flush=True)


def run(line: str, within_s: float, more: dict[str, str] | None = None) -> tuple[int, str, float]:
    """Exit code, output and seconds of a line for bash. After `within_s` it is killed, with all that it has started."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", line], cwd=ROOT, env={**os.environ, "AGAIN": "", **(more or {})}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                code = process.wait(within_s)
            except subprocess.TimeoutExpired:
                code = 124
                output.write(f"\nnot done within {within_s:.0f} s\n".encode())
            finally:
                _kill(process.pid)
        return code, log.read_text(errors="replace"), time.monotonic() - started


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
