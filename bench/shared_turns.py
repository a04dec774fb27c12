"""Measures turns of an engine of shared hosts, without a bus: the cores of both sides and the engine in this process.

    python bench/shared_turns.py [--json] [--pools N] [--tasks N] [--hosts N]

All tasks are placed first. Then turns in which nothing changes (`idle`), in which one task is taken, asked for and
placed (`single`), and in which the RM has changed something of its own (`rm`): the median time of a turn, the time of
it in the core and in the resource manager, and the questions to the core. Requests to the core are carried out as
rmproxy would, and cost nothing here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from remuda_bus.bus import Message
from remuda_core import commands as si
from remuda_core.core import Core as SiCore
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings
from remuda_core.shell.queries import Queries
from remuda_peloton import commands, limits
from remuda_peloton.core import Core
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.rules.task import Task
from remuda_peloton.shell.partition import Partition
from remuda_peloton.shell.shared_engine import SharedEngine
from remuda_peloton.wire import host_rpcs, rpcs

RPCS: Final = {**host_rpcs.RPCS, **rpcs.RPCS}
PARTITION: Final = "[rm-1]default"
NODE: Final = {"vcore": 64_000, "memory": 2**38, "disk": 2**40}
LIMITS: Final = (64.0, 0.0, 256_000.0, 1_000_000.0)
JOB: Final = "11111111-1111-4111-8111-111111111111"
ROUNDS: Final = 5


class Rm:
    """The core of the RM, as the bus shows it. `spent_s`: in answers."""

    def __init__(self, hosts: int) -> None:
        self.core, self.seq, self.now_ms = SiCore("rm-1"), 0, 1_700_000_000_000
        most = {name: amount * hosts for name, amount in NODE.items()}
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("p", parent=True, max=most),))
        partition = PartitionSettings("default", root, placement_rules=(PlacementRule("provided", create=True),))
        self.do(si.Register("rm-1", Configuration("sum", (partition,))))
        for number in range(hosts):
            self.do(si.UpdateNode(PARTITION, f"n{number:05}", "CREATE", {}, NODE))
        self.queries, self.asked, self.spent_s = Queries(self.core), 0, 0.0

    def do(self, command: si.Command) -> None:
        self.core.handle(command, self.now_ms)
        self.seq += 1

    def schedule(self) -> None:
        self.now_ms += 1_000
        self.do(si.Schedule(1_000_000))

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> Message:
        began_s = time.perf_counter()
        self.asked += 1
        answer = self.queries.kinds[subject.rpartition(".")[2]](json.loads(payload))
        encoded = msgspec.json.encode({**answer, "log_seq": self.seq})
        self.spent_s += time.perf_counter() - began_s
        return Message(subject, encoded)


class DirectPartition(Partition):
    """Its requests go to the core at once."""

    def __init__(self, rm: Rm) -> None:
        super().__init__(rm, "rm-1", "default", "root.p", "default")  # type: ignore[arg-type]
        self._rm = rm

    async def submit(self, applications: Sequence[tuple[str, str, Mapping[str, str]]]) -> None:
        for name, queue, tags in applications:
            self._rm.do(si.SubmitApplication(PARTITION, name, queue, "peloton.default", tags=dict(tags)))

    async def ask(self, asks: Sequence[Any]) -> None:
        for one in asks:
            amounts = {name: amount.value for name, amount in one.resourceAsk.resources.items()}
            self._rm.do(si.SubmitAsk(Ask(PARTITION, one.applicationID, one.allocationKey, amounts)))

    async def give_back(self, asks: Sequence[Any], allocations: Sequence[Any], why: str) -> None:
        assert not asks and not allocations, "each allocation is of a run"


class Resmgr:
    """`spent_s`: in RPCs."""

    def __init__(self) -> None:
        self.core, self.now_ms, self.spent_s = Core(), 1_000, 0.0

    def do(self, command: commands.Command) -> Any:
        self.now_ms += 1
        return self.core.handle(command, self.now_ms)[1]

    async def __call__(self, name: str, request: Any) -> Any:
        began_s, rpc = time.perf_counter(), RPCS[name]
        if rpc.question is not None:
            answer = rpc.question(self.core.state, request)
        else:
            assert rpc.command is not None and rpc.answer is not None
            answer = rpc.answer(request, self.do(rpc.command(request)))
        found = type(answer).FromString(answer.SerializeToString())
        self.spent_s += time.perf_counter() - began_s
        return found

    def enqueue(self, pool: str, numbers: range) -> None:
        gangs = tuple(
            (Task(f"{JOB}-{one}", f"{JOB}-{one}-1", (1.0, 0.0, 100.0, 0.0), preemptible=True),) for one in numbers
        )
        self.do(commands.EnqueueGangs(pool, gangs))

    def admit(self) -> None:
        self.do(commands.CalculateEntitlements())
        self.do(commands.Admit())


class Bench:
    def __init__(self, hosts: int) -> None:
        self.rm, self.resmgr = Rm(hosts), Resmgr()
        self.engine = SharedEngine(
            DirectPartition(self.rm), "default", "root.p", refresh_s=0.0, hold_s=float("inf")
        )  # fmt: skip

    async def turn(self) -> dict[str, float]:
        began_s, core_s, resmgr_s = time.perf_counter(), self.rm.spent_s, self.resmgr.spent_s
        asked = self.rm.asked
        await self.engine.turn(self.resmgr)
        return {
            "ms": (time.perf_counter() - began_s) * 1_000, "core_ms": (self.rm.spent_s - core_s) * 1_000,
            "resmgr_ms": (self.resmgr.spent_s - resmgr_s) * 1_000, "questions": self.rm.asked - asked,
        }  # fmt: skip

    async def place_all(self, tasks: int) -> None:
        while sum(bool(run.hostname) for run in self.resmgr.core.state.runs.values()) < tasks:
            self.resmgr.admit()
            await self.turn()
            self.rm.schedule()
        for _ in range(ROUNDS):
            await self.turn()

    async def turns(self, name: str, before: Callable[[int], object], each: int) -> dict[str, float]:
        rows = []
        for number in range(ROUNDS):
            before(number)
            for _ in range(each):
                rows.append(await self.turn())
                if each > 1:
                    self.rm.schedule()
        return {f"{name}_{key}": statistics.median(row[key] for row in rows) for key in rows[0]}


async def main(pools: int, tasks: int, hosts: int) -> dict[str, float]:
    limits.GANGS_PER_TURN = limits.PLACEMENTS_PER_REQUEST = 5_000  # type: ignore[misc]  # the beginning is not measured
    bench = Bench(hosts)
    await bench.engine.take_over(bench.resmgr)
    await bench.turn()
    kinds = tuple(KindConfig(kind, 0.0, most * hosts) for kind, most in zip(KINDS, LIMITS, strict=True))
    ids = [
        bench.resmgr.do(commands.CreatePool(PoolConfig(f"p{one}", f"p{one}", resources=kinds))) for one in range(pools)
    ]
    for number, pool in enumerate(ids):
        bench.resmgr.enqueue(pool, range(number * tasks // pools, (number + 1) * tasks // pools))
    await bench.place_all(tasks)

    def one_more(number: int) -> None:
        bench.resmgr.now_ms += 1_000
        bench.resmgr.enqueue(ids[number % pools], range(tasks + number, tasks + number + 1))
        bench.resmgr.admit()

    idle = await bench.turns("idle", lambda _: None, 1)
    single = await bench.turns("single", one_more, 3)
    await bench.turn()
    return {**idle, **single, **await bench.turns("rm", lambda _: bench.rm.schedule(), 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pools", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=5_000)
    given = parser.parse_args()
    result = asyncio.run(main(given.pools, given.tasks, given.hosts))
    print(json.dumps(result) if given.json else "\n".join(f"{name:18} {value:,.2f}" for name, value in result.items()))
