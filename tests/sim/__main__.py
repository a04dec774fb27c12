"""python -m tests.sim --seed 7 (again, with the story) · --seconds 3600 · --seeds 2000 --from 0 · --tenants"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from . import configuring, front_ends, peloton, side_by_side, tenants
from .kubernetes import simulation as kubernetes
from .simulation import run
from .story import Story

Run = Callable[[int], Story]
OPTIONS: dict[Run, str] = {
    tenants.run: "--tenants ",
    configuring.run: "--configuration ",
    front_ends.run: "--front-ends ",
    kubernetes.run: "--kubernetes ",
    peloton.run: "--peloton ",
    side_by_side.run: "--side-by-side ",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.sim", description="The whole system on virtual time, out of seeds.")
    parser.add_argument("--seed", type=int, help="run this one and print what happened")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed of several")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--seconds", type=float, default=60.0, help="as many as fit (default: 60)")
    parser.add_argument("--tenants", action="store_true", help="five RMs, one of them hostile")
    parser.add_argument("--configuration", action="store_true", help="changes of the configuration file")
    parser.add_argument("--front-ends", action="store_true", help="RMs over gRPC")
    parser.add_argument("--kubernetes", action="store_true", help="a Kubernetes cluster")
    parser.add_argument("--peloton", action="store_true", help="Peloton's resource manager with its clients")
    parser.add_argument("--side-by-side", action="store_true", help="Peloton's tasks on the nodes of an RM")
    options = parser.parse_args()
    given = vars(options)
    chosen: Run = next((one for one, option in OPTIONS.items() if given[option.strip("- ").replace("-", "_")]), run)
    if options.seed is not None:
        return _one(chosen, options.seed)
    return _many(chosen, options.first, options.seeds, options.seconds)


def _one(run: Run, seed: int) -> int:
    story = run(seed)
    print("\n".join(story.lines))
    print(f"seed {seed}: {'; '.join(story.violations) or 'no violation'} ({story.digest()[:12]})")
    return bool(story.violations)


def _many(run: Run, first: int, seeds: int | None, seconds: float) -> int:
    started, ran, failed = time.monotonic(), 0, []
    while ran < seeds if seeds is not None else time.monotonic() - started < seconds:
        story = run(first + ran)
        ran += 1
        if story.violations:
            failed.append(first + ran - 1)
            print(f"seed {failed[-1]}: {story.violations[0][:600]}", flush=True)
        if ran % 100 == 0:
            print(f"{ran} seeds, {len(failed)} with a violation", flush=True)
    took = time.monotonic() - started
    print(f"{ran} seeds from {first}, {len(failed)} with a violation, {took:.1f} s, {took / max(1, ran):.3f} s each")
    if failed:
        print(f"what happened: python -m tests.sim {OPTIONS.get(run, '')}--seed {failed[0]}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
