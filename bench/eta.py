"""Forecasts of start times on a log in Standard Workload Format: how near they are, and how often their intervals hold.

    python bench/eta.py LOG.swf[.gz] [--every 2] [--skip 1000] [--samples 20] [--limit N] [--json]

The log is played through the core as `bench/backfill.py` does, under the policy `easy`. At the submission of each
`every`-th job that has to wait, its start is forecast from the state of the core at that moment (`remuda_core.trials
.forecast`): the queue, what runs and since when, and the run times that the core has learnt. Later arrivals are not
known. When the job starts, its forecast is resolved. Forecasts of the first `skip` waiting jobs are not counted.

`inside_80`: the share of true waits inside the 80 % interval. `median_error_of_median_wait`: the median of the absolute
errors, over the median wait. `width_of_wait`: the median of the width of the interval over the wait. `blocks_of_500`:
the lowest and the highest share inside, of 500 forecasts each. `ms_per_forecast`: time of one, of all its samples.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from remuda_core.trials.forecast import SAMPLES, starts, world_of
from remuda_core.trials.intervals import Intervals, Open, raw_interval

sys.path.append(str(Path(__file__).parents[1]))
from bench.backfill import BEGIN_MS, PARTITION, Job, Machine, play, read

MINUTE_S: Final = 60
BLOCK: Final = 500


@dataclass
class Forecasts:
    every: int
    skip: int
    samples: int
    intervals: Intervals = field(default_factory=Intervals)
    open: dict[int, tuple[Open, int, bool]] = field(default_factory=dict)
    # By the number of the forecast: (wait, median, below, above) in s.
    rows: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    raw: list[bool] = field(default_factory=list)
    waiting: int = 0
    seconds: float = 0.0
    made: int = 0

    def watch(self, machine: Machine, job: Job, now_s: int) -> None:
        """Resolve what has started, and forecast the job if it waits."""
        for number in [number for number in self.open if number in machine.started_s]:
            self.resolve(number, machine)
        if job.number in machine.started_s:
            return
        self.waiting += 1
        if self.waiting % self.every:
            return
        began = time.perf_counter()
        state = machine.core.state
        world = world_of(state, state.partitions[PARTITION], machine.core.index, BEGIN_MS + 1000 * now_s)
        name = f"job-{job.number}"
        target = next(at for at, one in enumerate(world.waiting) if one.pending.ask.application_id == name)
        waits = [at_ms - world.now_ms for at_ms in starts(world, self.samples, target)[target]]
        raw = raw_interval(waits, self.samples)
        self.seconds += time.perf_counter() - began
        self.made += 1
        if raw is not None:
            self.open[job.number] = Open(raw, self.intervals.widened(raw)), now_s, self.waiting > self.skip

    def resolve(self, number: int, machine: Machine) -> None:
        one, since_s, counts = self.open.pop(number)
        wait_s = machine.started_s[number] - since_s
        self.intervals.resolve(one, 1000 * wait_s)
        if counts:
            low_ms, middle_ms, high_ms = one.shown
            self.rows[number] = (wait_s, low_ms / 1000, middle_ms / 1000, high_ms / 1000)
            self.raw.append(one.raw.below_ms <= 1000 * wait_s <= one.raw.above_ms)

    def measures(self) -> dict[str, object]:
        rows = [self.rows[number] for number in sorted(self.rows)]
        waits = [wait for wait, *_ in rows]
        inside = [below <= wait <= above for wait, _, below, above in rows]
        middle = statistics.median(waits)
        blocks = [statistics.fmean(inside[at : at + BLOCK]) for at in range(0, len(inside) - BLOCK + 1, BLOCK)]
        return {
            "forecasts": len(rows),
            "median_wait_min": round(middle / MINUTE_S, 1),
            "inside_80": round(statistics.fmean(inside), 4),
            "inside_80_of_samples": round(statistics.fmean(self.raw), 4),
            "median_error_of_median_wait": round(statistics.median(abs(row[0] - row[1]) for row in rows) / middle, 4),
            "width_of_wait": round(statistics.median((row[3] - row[2]) / max(row[0], MINUTE_S) for row in rows), 3),
            "blocks_of_500": [round(min(blocks, default=0.0), 3), round(max(blocks, default=0.0), 3)],
            "ms_per_forecast": round(1000 * self.seconds / max(1, self.made), 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--skip", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    jobs, processors = read(options.log, options.limit)
    gc.freeze()
    found = Forecasts(options.every, options.skip, options.samples)
    machine = play(jobs, processors, "easy", found.watch)
    for number in list(found.open):
        found.resolve(number, machine)
    measures = {"log": options.log.name, **found.measures()}
    if options.json:
        print(json.dumps(measures), flush=True)
    else:
        for name, value in measures.items():
            print(f"{name:30} {value}")


if __name__ == "__main__":
    main()
