"""`kill -9`, again and again, of everything there is, while RMs ask: `python -m tests.chaos --kills 40 --asks 100000`.
One of the RMs is connected over gRPC. An operator acts on them, and changes the configuration, all the time.

Real processes and a real nats-server. When all is asked for and all killing is done, the books of every RM have to
agree with those of the core, with the sums of its nodes and with its log, replayed from scratch. Each action of the
operator that was answered has to be in the log once, and each change of the configuration in the history.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from remuda.embedded import free_port
from remuda.local.supervisor import Program, Supervisor
from remuda.local.system import Layout
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_events.stories.story import StoryTarget
from remuda_events.story_reader import lines
from tests.accounting import Books, Plan, verify
from tests.accounting.books import OPERATOR
from tests.accounting.ledger import account_of_ledger
from tests.accounting.operator import AccountingOperator, KeyedSystem, queues_yaml
from tests.identity.archived import until_archived

RMS = 3
OVER_GRPC = "rm-3"
TWO_AT_ONCE = 0.15  # of the kills take a second victim along
EVERYTHING = "everything"  # a victim like others: nats-server and all services at the same moment
READY_S = 60.0
SETTLE_S = 240.0  # after the last kill; most of it is for slow machines
ACTS_EVERY_S = 0.5
STORIES = 3  # told of what does not add up
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# A service that a kill has thrown into doubt dies of it; these are deaths of another kind.
BUG = re.compile(
    r"\b(AssertionError|TypeError|KeyError|AttributeError|IndexError|ValueError|HistoryChanged|Unreadable)\b"
)


class Chaos:
    def __init__(self, options: argparse.Namespace, data: Path) -> None:
        self.options = options
        self.data = data
        self.random = random.Random(options.seed)
        self.kills: Counter[str] = Counter()
        self.plan = Plan(asks=-(-options.asks // RMS), rate=options.asks / RMS / options.seconds)
        self.rms = [f"rm-{number}" for number in range(1, RMS + 1)]
        self.heard: dict[str, dict[str, int]] = {}  # how far each RM is
        self.grpc_port = free_port("127.0.0.1")  # the same in each life of the front end
        (file := data / "queues.yaml").write_text(queues_yaml())
        acl = f"scheduler.acl={OPERATOR}"
        self.system = KeyedSystem(
            Layout(
                data / "system",
                cores=3,
                rmproxies=2,
                grpc_port=self.grpc_port,
                config=file,
                archive=options.archive,
                assignments=(acl, "events.ledger=true", *(("archive.write=1s",) if options.archive else ())),
            )
        )
        self.drivers = Supervisor(printed=self.hear)

    async def run(self) -> list[str]:
        """Returns the inconsistencies."""
        async with self.system:
            await self.system.ready(READY_S)
            for rm in self.rms:
                self.drivers.start(self.program(rm))
            seed = self.system.server.seed
            operator = AccountingOperator(self.system.url, seed, self.rms, self.plan, random.Random(self.options.seed))
            acting = asyncio.create_task(operator.work(ACTS_EVERY_S))
            try:
                await self.kill_all()
                acting.cancel()
                self.say(f"the last is killed, waiting for the work to be done; operator: {operator.summary()}")
                async with asyncio.timeout(SETTLE_S):
                    await operator.rest()
                await self.until_settled(SETTLE_S)
                await self.system.ready(READY_S)
            finally:
                await self.drivers.stop(self.rms)
            bus = await connect(self.system.url, "accountant", timeout_s=READY_S)
            try:
                found = [problem for rm in self.rms for problem in await self.account(bus, rm)] + self.bugs()
                if self.options.archive:
                    await until_archived(bus, Path(self.options.archive))
                for rm in self.rms:
                    found += await account_of_ledger(bus, rm)
                    found += await operator.account(bus, rm, Books.open(self.plan, self.journal(rm)))
                return found + await operator.account_of_changes(bus)
            finally:
                await bus.close()

    def program(self, rm: str) -> Program:
        url = f"grpc://127.0.0.1:{self.grpc_port}" if rm == OVER_GRPC else self.system.url
        argv = (
            sys.executable, "-m", "tests.accounting.rm", url, rm, str(self.journal(rm)),
            str(self.plan.asks), str(self.plan.rate),
        )  # fmt: skip
        return Program(rm, argv, self.data / f"{rm}.log")

    def journal(self, rm: str) -> Path:
        return self.data / f"{rm}.journal"

    async def kill_all(self) -> None:
        """Kill each process equally often, at random times."""
        gap_s = self.options.seconds / self.options.kills
        turns: list[str] = []
        for number in range(1, self.options.kills + 1):
            await asyncio.sleep(gap_s * self.random.uniform(0.3, 1.7))
            for _ in range(1 + (self.random.random() < TWO_AT_ONCE)):
                turns = turns or self.random.sample(self.victims(), len(self.victims()))
                await self.kill(turns.pop())
            self.say(f"{number} times, {self.kills.total()} killed")

    def victims(self) -> list[str]:
        services = [process.name for process in self.system.processes]
        return [*services, EVERYTHING, *(() if self.options.spare_rms else self.rms)]

    async def kill(self, name: str) -> None:
        """As soon as it is alive."""
        names = [process.name for process in self.system.processes] if name == EVERYTHING else [name]
        await until(lambda: all(self.pid(one) is not None for one in names))
        pids = {one: pid for one in names if (pid := self.pid(one)) is not None}
        for one, pid in pids.items():
            os.kill(pid, signal.SIGKILL)
            self.kills[one] += 1
        await until(lambda: all(self.pid(one) != pid for one, pid in pids.items()))  # their keepers have seen it

    def pid(self, name: str) -> int | None:
        everyone = (*self.system.processes, *self.drivers.processes.values())
        return next(process.pid for process in everyone if process.name == name)

    async def until_settled(self, within_s: float) -> None:
        """Returns after `within_s` at the latest. The comparison reports RMs that have not settled."""
        try:
            async with asyncio.timeout(within_s):
                await until(lambda: all(self.heard.get(rm, {}).get("settled") for rm in self.rms))
        except TimeoutError:
            self.say(f"not settled after {within_s:.0f} s")

    async def account(self, bus: Bus, rm: str) -> list[str]:
        books = Books.open(self.plan, self.journal(rm))
        self.say(
            f"{rm}: {books.placed_asks()} of {self.plan.asks} asks placed, {len(books.running)} running, "
            f"{dict(Counter(books.gone.values()))} ended, {dict(books.starts)} starts, {books.repeated} told again, "
            f"{books.crossed} crossed"
        )
        unexpected = books.starts.total() - 1 - self.kills[rm]
        own = [f"it has failed {unexpected} times by itself: {self.data / rm}.log"] if unexpected > 0 else []
        problems = [f"{rm}: {problem}" for problem in (*own, *await verify(bus, rm, books))]
        return problems + await stories(bus, rm, problems)

    def bugs(self) -> list[str]:
        """The log lines that no kill explains."""
        logs = [*self.system.log_dir.glob("*.log"), *self.data.glob("rm-*.log")]
        return [
            f"{log.name}: {line.strip()}"
            for log in logs
            for line in log.read_text(errors="replace").splitlines()
            if BUG.search(line)
        ]

    def hear(self, rm: str, line: str) -> None:
        if line.startswith("{"):
            self.heard[rm] = json.loads(line)

    def say(self, text: str) -> None:
        placed = sum(at["placed"] for at in self.heard.values())
        print(f"{time.monotonic() - STARTED:6.1f} s  {placed:7,} placed  {text}", flush=True)


STARTED = time.monotonic()


async def stories(bus: Bus, rm: str, problems: list[str]) -> list[str]:
    """Of some of the allocations that the problems name."""
    named = dict.fromkeys(UUID.findall(" ".join(problems)))
    return [
        f"    at {line.at_ms} {line.text} [{line.cause}]"
        for uuid in list(named)[:STORIES]
        async for line in lines(bus, rm, StoryTarget(uuid))
    ]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - processes that are killed set no events
        await asyncio.sleep(0.02)


# Cores start from snapshots, and snapshots are killed half-way. Logs stay whole: they are replayed from scratch.
OFTEN = {"REMUDA_SNAPSHOT_FACTS": "1000", "REMUDA_SNAPSHOT_APART_S": "1"}


async def main(options: argparse.Namespace) -> int:
    os.environ.update(OFTEN)
    data = Path(tempfile.mkdtemp(prefix="remuda-chaos-"))
    print(f"seed {options.seed}: {options.asks:,} asks, {options.kills} kills in {options.seconds:.0f} s, in {data}")
    chaos = Chaos(options, data)
    problems = await chaos.run()
    restarts = {process.name: process.restarts for process in chaos.system.processes}
    print(f"killed: {dict(sorted(chaos.kills.items()))}")
    print(f"started again, for that or by doubt: {restarts}")
    if problems:
        print(*problems[:50], f"{len(problems)} problems; seed {options.seed}, everything in {data}", sep="\n")
        return 1
    print("every ask has exactly one allocation; RMs, operator, core, nodes, log and history agree")
    shutil.rmtree(data)
    return 0


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill everything again and again, then compare all books.")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long there is asking and killing")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--asks", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--spare-rms", action="store_true", help="RMs are not killed")
    parser.add_argument("--archive", help="also run the archive, which writes into this directory")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(options_of())))
