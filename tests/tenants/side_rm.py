"""An RM of another tenant that works all the time, as a process of its own: `python -m tests.tenants.side_rm URL`.

It asks for one allocation at a time at a fixed rate, whether or not the former ones are allocated, and releases what it
gets. It prints a line of JSON for each ask, {"asked": KEY, "at": S}, and one for each allocation, {"allocated": KEY,
"at": S}. Times are those of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node

RM = "side"
APPLICATION = "app-side"
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
NODES = 4
EVERY_S = 0.05


def told(**what: object) -> None:
    print(json.dumps({**what, "at": time.monotonic()}), flush=True)


async def work(url: str, rm_id: str, every_s: float) -> None:
    rm = ResourceManager.connect(url, rm_id, config=QUEUES, retry_for_s=600.0, register_within_s=30.0)
    async with rm, asyncio.TaskGroup() as group:
        await rm.report_nodes(node(f"n{number}", vcore=100_000) for number in range(NODES))
        await rm.submit(application(APPLICATION, queue="root.a", user="ann"))
        group.create_task(release(rm))
        next_at, number = time.monotonic(), 0
        while True:
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
            key = f"k{number}"
            told(asked=key)
            group.create_task(one(rm, key))
            next_at, number = next_at + every_s, number + 1


async def one(rm: ResourceManager, key: str) -> None:
    await rm.ask([ask(APPLICATION, key, vcore=1)])


async def release(rm: ResourceManager) -> None:
    async for callback in rm.callbacks():
        if isinstance(callback, si.AllocationResponse):
            for allocation in callback.new:
                told(allocated=allocation.allocationKey)
            if callback.new:
                await rm.release(callback.new)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--rm", default=RM)
    parser.add_argument("--every-s", type=float, default=EVERY_S)
    options = parser.parse_args()
    asyncio.run(work(options.url, options.rm, options.every_s))


if __name__ == "__main__":
    main()
