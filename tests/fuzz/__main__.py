"""python -m tests.fuzz --seconds 60 · --seed 7 (what was sent then is sent again)"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .fuzz import ANSWER_P99_S, SIDE_P99_S, Report, fuzz, slope_of

# Snapshots are taken while it runs.
OFTEN = {"REMUDA_SNAPSHOT_FACTS": "5000", "REMUDA_SNAPSHOT_APART_S": "2"}
PROBLEM_CHARACTERS = 1_500


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description="Hostile RMs against a running system.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    os.environ.update(OFTEN)
    data = Path(tempfile.mkdtemp(prefix="remuda-fuzz-"))
    print(f"seed {options.seed}, {options.seconds:g} s, in {data}", flush=True)
    report = asyncio.run(fuzz(data, options.seconds, options.seed))
    show(report)
    if report.problems:
        for problem in report.problems:
            print(f"PROBLEM {problem[:PROBLEM_CHARACTERS]}")
        print(f"{len(report.problems)} problems; again: make fuzz SEED={report.seed}; its logs: {data}")
        return 1
    shutil.rmtree(data)
    return 0


def show(report: Report) -> None:
    console = Console(width=120, highlight=False)
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("sent", "", "said of it", ""):
        table.add_column(name, justify="left" if name else "right")
    sent, told = report.sent.most_common(), report.told.most_common()
    for row in range(max(len(sent), len(told))):
        left = sent[row] if row < len(sent) else ("", "")
        right = told[row] if row < len(told) else ("", "")
        table.add_row(left[0], str(left[1]), right[0], str(right[1]))
    console.print(table)
    memory = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("process", "MB before", "MB at a third", "MB most", "MB after", "MB/s since a third"):
        memory.add_column(name, justify="left" if name == "process" else "right")
    for name, before in report.memory_mb[0][1].items():
        values = [sample.get(name, 0.0) for _, sample in report.memory_mb]
        figures = (before, values[len(values) // 3], max(values), values[-1])
        memory.add_row(name, *(f"{mb:.0f}" for mb in figures), f"{slope_of(report.memory_mb, name):+.1f}")
    console.print(memory)
    console.print(
        f"side RM: {report.side_asks} asks, p99 {report.side_p99_s * 1_000:.0f} ms (at most {SIDE_P99_S * 1_000:.0f}), "
        f"longest {report.side_longest_s * 1_000:.0f} ms, p99 when idle {report.idle_p99_s * 1_000:.0f} ms"
    )
    answered = f"{report.answers} answers about it, p99 {report.answer_p99_s * 1_000:.0f} ms"
    console.print(f"{answered} (at most {ANSWER_P99_S * 1_000:.0f})")
    console.print(f"halted: {', '.join(sorted(report.halted)) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
