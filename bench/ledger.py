"""How long the ledger takes: to follow a log of 100,000 allocations a day, and to read a month of it.

    python -m bench.ledger [--days 30] [--allocations 100000] [--applications 1000] [--json]

The log is made of facts, without a core: each allocation runs for 20 minutes on average, of one of 1,000 applications
of 50 users in 20 queues. Hours are in the bus in memory. Sums of all hours are read by queue, user and application.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import time
from collections.abc import Iterator
from random import Random

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_events.ledger import checkpoints
from remuda_events.ledger.projection import ClosedDay, Projection
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark
from remuda_operations.ledger.hours import HOUR_MS
from remuda_operations.ledger.reading import LedgerQuery, read_ledger
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START

RM, PARTITION, BEGIN_MS = "rm-1", "[rm-1]default", 480_000 * HOUR_MS
DAY_MS = 24 * HOUR_MS
QUEUES, USERS, COMMIT_FACTS = 20, 50, 100


def commits(days: int, allocations: int, applications: int) -> Iterator[log_pb2.Commit]:
    random, ends = Random(1), list[tuple[int, str, str]]()
    step_ms, facts = DAY_MS // allocations, list[log_pb2.Fact]()
    for number in range(applications):
        accepted = log_pb2.ApplicationAccepted(
            partition=PARTITION, application_id=f"application-{number}", queue=f"root.q{number % QUEUES}.leaf",
            user=f"user-{number % USERS}",
        )  # fmt: skip
        facts.append(log_pb2.Fact(application_accepted=accepted))
    for number in range(days * allocations):
        now_ms = BEGIN_MS + number * step_ms
        application, uuid = f"application-{random.randrange(applications)}", f"uuid-{number:032}"
        resource = si.Resource(resources={
            "vcore": si.Quantity(value=random.choice((1, 2, 4)) * 1_000), "memory": si.Quantity(value=2**31),
        })  # fmt: skip
        allocation = si.Allocation(
            UUID=uuid, allocationKey=uuid, applicationID=application, partitionName=PARTITION,
            nodeID=f"n{number % 500}", resourcePerAlloc=resource,
        )  # fmt: skip
        facts.append(log_pb2.Fact(allocated=log_pb2.Allocated(allocation=allocation)))
        heapq.heappush(ends, (now_ms + int(random.expovariate(1 / 1_200_000)), application, uuid))
        while ends[0][0] <= now_ms:
            _, application, uuid = heapq.heappop(ends)
            released = log_pb2.AllocationReleased(partition=PARTITION, application_id=application, uuid=uuid)
            facts.append(log_pb2.Fact(allocation_released=released))
        if len(facts) >= COMMIT_FACTS:
            yield log_pb2.Commit(now_ms=now_ms, decisions=[log_pb2.Decision(facts=facts)])
            facts.clear()
    yield log_pb2.Commit(now_ms=BEGIN_MS + days * DAY_MS, decisions=[log_pb2.Decision(facts=facts)])


async def measure(days: int, allocations: int, applications: int) -> dict[str, float]:
    bus, projection = MemoryBus(), Projection()
    facts = size = spent = 0.0
    for commit in commits(days, allocations, applications):
        began = time.process_time()
        for closed in projection.apply(commit):
            for payload in hours.encode(closed[0], closed.rows):
                size += len(payload)
                of_day = isinstance(closed, ClosedDay)
                number = closed[0] // (DAY_MS if of_day else HOUR_MS)
                await bus.append((subjects.ledger_days if of_day else subjects.ledger)(RM, number), payload)
        spent += time.process_time() - began
        facts += len(commit.decisions[0].facts)
    bookmark = Bookmark(1, "", BEGIN_MS, projection.hour_ms).encode()
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(RM), bookmark)
    found: dict[str, float] = {
        "facts_per_s": round(facts / spent),
        "bytes_per_day": round(size / days),
        "checkpoint_bytes": len(checkpoints.encode(projection, START)),
    }
    for name, by, per in (
        ("queue", ("queue",), "all"), ("user", ("queue", "user"), "day"), ("application", ("application",), "all"),
        ("queue_and_hour", ("queue",), "hour"),
    ):  # fmt: skip
        query = LedgerQuery(BEGIN_MS, BEGIN_MS + days * DAY_MS, by, per)
        began = time.process_time()
        answer = await read_ledger(bus, RM, query)
        found[f"by_{name}_s"] = round(time.process_time() - began, 3)
        assert answer.rows
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--allocations", type=int, default=100_000, help="a day")
    parser.add_argument("--applications", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.days, given.allocations, given.applications))
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:18} {value:>12,}")


if __name__ == "__main__":
    main()
