"""make flakes: plays a tier several times beside two busy loops on each processor. Prints what failed, and why."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .play import ANSI, FAILED, run

LOOPS = 2  # on each processor
WITHIN_S = 3600.0
OUTPUTS = Path(".pytest_cache/flakes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make flakes", description=__doc__)
    parser.add_argument("--tier", default="test", help="a target of the Makefile: test, system, long, kubernetes, ...")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    found: Counter[str] = Counter()
    with busy():
        for time in range(1, arguments.times + 1):
            code, output, seconds = run(f"make {arguments.tier} ARGS=-q", WITHIN_S, {"COLUMNS": "300"})
            failed = {line[1]: line[0] for line in FAILED.finditer(ANSI.sub("", output))}
            if code and not failed:
                failed = {f"make {arguments.tier}: exit {code}": output[-2000:]}
            found.update(failed.keys())
            print(f"{time} of {arguments.times}: {seconds:.0f} s, {len(failed)} failed", flush=True)
            if failed:
                written = OUTPUTS / f"{arguments.tier}-{time}.txt"
                written.parent.mkdir(parents=True, exist_ok=True)
                written.write_text(output)
                print(f"  the whole output: {written}", flush=True)
            for name in sorted(failed):
                print(f"  {failed[name]}", flush=True)
    for name, times in found.most_common():
        print(f"{times:3} of {arguments.times}  {name}")
    print(f"{len(found)} failed at least once")
    return int(bool(found))


@contextmanager
def busy() -> Iterator[None]:
    """Loops that end with this block, or with this process."""
    ends_with_us = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    loops = [subprocess.Popen([sys.executable, "-c", ends_with_us]) for _ in range(LOOPS * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main())
