"""A resource manager in a process of its own: a node, an application, one ask; ends when it has its allocation."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

from remuda_bus import tracing
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import Callback, ResourceManager, application, ask, node

RM = "rm-trace"
C = TypeVar("C", si.NodeResponse, si.ApplicationResponse, si.AllocationResponse)


async def main(url: str) -> None:
    async with ResourceManager.connect(url, RM) as rm:
        callbacks = rm.callbacks()
        await rm.report_nodes([node("n1", vcore=4_000, memory=2**34)])
        await answer(callbacks, si.NodeResponse)
        await rm.submit(application("app-1", user="ann", tags={"namespace": "tracing"}))
        await answer(callbacks, si.ApplicationResponse)
        await rm.ask([ask("app-1", "k1", vcore=1_000, memory=2**30)])
        allocated = await answer(callbacks, si.AllocationResponse)
        print(allocated.new[0].nodeID)


async def answer(callbacks: AsyncIterator[Callback], kind: type[C]) -> C:
    """The next of that kind; what else comes in between is passed over."""
    while not isinstance(callback := await anext(callbacks), kind):
        pass
    return callback


if __name__ == "__main__":
    tracing.setup("rm")
    try:
        asyncio.run(main(sys.argv[1]))
    finally:
        tracing.shutdown()
