"""Is a replay of an archive the history, commit by commit? `make identity`, or `python -m tests.identity [CASE]...`.

One line a case. Exits with 1 at the first that differs. The cases are seeds of the simulation (`sim SEED`), the demo, a
run with kills, and the openb trace where REMUDA_DATA names its folder."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from remuda.history.exact import Compared, compare
from remuda.history.past import Past
from remuda_archive.holdings import holdings_of_all
from remuda_archive.store import Store

SEEDS = 30


async def compared(archive: Path) -> AsyncIterator[tuple[str, Compared]]:
    """Each RM of an archive."""
    store = Store.open(str(archive))
    for held in holdings_of_all(await store.names()):
        past = Past(store, held)
        total = Compared()
        async for begin, end in past.stretches():
            total.add(await compare(past, begin, end))
        yield held.rm, total


async def make(case: str, archive: Path) -> list[str]:
    """Write the archive of a case. Returns what went wrong before the comparison."""
    from tests.identity import simulations, systems

    if case.startswith("sim "):
        story, recorders = await asyncio.to_thread(simulations.recorded, int(case.removeprefix("sim ")))
        for one in recorders:
            await one.write(Store.open(str(archive)))
        return story.violations
    if case == "demo":
        await systems.demo(archive)
        return []
    if case == "trace":
        await systems.trace(archive, Path(os.environ["REMUDA_DATA"]) / "openb")
        return []
    return await systems.chaos(archive)


async def played(case: str) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="remuda-identity-") as name:
        problems = await make(case, Path(name))
        found = [one async for one in compared(Path(name))]
    total = Compared()
    for _, one in found:
        total.add(one)
    if not total.commits:
        problems = [*problems, "the archive has no commits"]
    is_same = not problems and not total.different
    verdict = "the same" if is_same else "DIFFERENT"
    print(f"{case:8} {verdict}  {len(found)} RMs, {total}, {time.monotonic() - began:.0f} s", flush=True)
    for text in (*problems[:5], *(f"{rm}: {one}" for rm, each in found for one in each.differences[:5])):
        print(f"    {text[:2_000]}")
    return is_same


async def main(cases: list[str]) -> int:
    for case in cases:
        if not await played(case):
            return 1
    return 0


def cases_of(argv: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(description="Compare replays of archives with the history.")
    parser.add_argument("cases", nargs="*", help="sim, demo, chaos, trace; default: all of them")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds of the simulation")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    options = parser.parse_args(argv)
    seeds = [f"sim {seed}" for seed in range(options.first, options.first + options.seeds)]
    every = ["sim", "demo", "chaos", *(["trace"] if "REMUDA_DATA" in os.environ else [])]
    return [case for named in options.cases or every for case in (seeds if named == "sim" else [named])]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(cases_of(sys.argv[1:]))))
