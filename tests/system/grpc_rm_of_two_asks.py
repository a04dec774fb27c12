"""A resource manager over gRPC in a process of its own: a node, an application, an ask that fits and one that waits.
Ends when it has the allocation. Each stream belongs to the trace of the span that opens it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from remuda_bus import tracing
from remuda_proto.si.v1 import si_pb2 as si
from tests.system.grpc_client import Client, client, told

RM = "rm-trace"


async def main(port: int) -> None:
    async with client(port, RM) as rm:
        await rm.register(policyGroup="queues")
        nodes = si.NodeRequest(rmID=RM)
        node = nodes.nodes.add(nodeID="n1", action=si.NodeInfo.CREATE)
        node.schedulableResource.resources["vcore"].value = 4_000
        await answered(rm, "node", nodes, lambda found: any(one.accepted for one in found))
        applications = si.ApplicationRequest(rmID=RM)
        application = applications.new.add(applicationID="app-1", partitionName="default")
        application.ugi.user, application.tags["namespace"] = "ann", "tracing"
        await answered(rm, "application", applications, lambda found: any(one.accepted for one in found))
        asks = si.AllocationRequest(rmID=RM)
        for key, vcore in (("fits", 1_000), ("waits", 100_000)):
            ask = asks.asks.add(allocationKey=key, applicationID="app-1", partitionName="default", maxAllocations=1)
            ask.resourceAsk.resources["vcore"].value = vcore
        await answered(rm, "allocation", asks, lambda found: any(one.new for one in found))


async def answered(rm: Client, kind: str, request: Any, enough: Any) -> None:
    with tracing.span(f"rm.{kind}") as span:
        stream = rm.open(kind, **span.headers())
        await stream.write(request)
        await told(stream, enough, within_s=30)
    stream.cancel()


if __name__ == "__main__":
    tracing.setup("rm")
    try:
        asyncio.run(main(int(sys.argv[1])))
    finally:
        tracing.shutdown()
