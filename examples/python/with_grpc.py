"""A resource manager over gRPC: python with_grpc.py grpc://127.0.0.1:3333 STATE_FILE

docs/grpc.md describes metadata, statuses and guarantees. The messages are those of proto/si/v1/si.proto; here they come
from the package remuda-proto. `remuda_sdk.api` does more: it reconnects, and sends again what was not stored.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import grpc

from remuda_proto.si.v1 import si_pb2 as si

RM = "example-grpc"
QUEUES = Path(__file__).parents[1].joinpath("queues.yaml").read_text()


def cores(number: int) -> si.Resource:
    return si.Resource(resources={"vcore": si.Quantity(value=1000 * number)})


def asks(app_id: str, *keys: str, urgent: bool = False) -> si.AllocationRequest:
    policy = si.PreemptionPolicy(allowPreemptOther=urgent)
    made = [
        si.AllocationAsk(
            applicationID=app_id, allocationKey=key, maxAllocations=1, resourceAsk=cores(1), preemptionPolicy=policy
        )
        for key in keys
    ]
    return si.AllocationRequest(rmID=RM, asks=made)


def releases(*given: si.AllocationRelease) -> si.AllocationRequest:
    return si.AllocationRequest(rmID=RM, releases=si.AllocationReleasesRequest(allocationsToRelease=given))


class Stream:
    """One of the three streams. With `remuda-acknowledge`, an empty response states that a request is durable."""

    def __init__(self, channel: Any, method: str, response: Any) -> None:
        metadata = (("remuda-rm", RM), ("remuda-acknowledge", f"{secrets.token_hex(8)}:1"))
        open_stream = channel.stream_stream(
            f"/si.v1.Scheduler/{method}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=response.FromString,
        )
        self._call = open_stream(metadata=metadata)
        self._durable: asyncio.Queue[None] = asyncio.Queue()
        self.callbacks: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def send(self, request: Any) -> None:
        await self._call.write(request)
        await self._durable.get()

    async def _read(self) -> None:
        async for response in self._call:
            if response.ByteSize():
                self.callbacks.put_nowait(response)
            else:
                self._durable.put_nowait(None)


async def main(url: str, file: Path) -> None:
    restarted = file.exists()
    tasks: dict[str, str] = json.loads(file.read_text()) if restarted else {}  # by UUID; "" once they have ended
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        register = channel.unary_unary(
            "/si.v1.Scheduler/RegisterResourceManager",
            request_serializer=si.RegisterResourceManagerRequest.SerializeToString,
            response_deserializer=si.RegisterResourceManagerResponse.FromString,
        )
        resync = {"resync": "replay" if restarted else "report"}
        await register(si.RegisterResourceManagerRequest(rmID=RM, config=QUEUES, extraConfig=resync))
        nodes = Stream(channel, "UpdateNode", si.NodeResponse)
        applications = Stream(channel, "UpdateApplication", si.ApplicationResponse)
        allocations = Stream(channel, "UpdateAllocation", si.AllocationResponse)

        if not restarted:
            node = si.NodeInfo(nodeID="node-1", action=si.NodeInfo.CREATE, schedulableResource=cores(4))
            await nodes.send(si.NodeRequest(rmID=RM, nodes=[node]))
            user = si.UserGroupInformation(user="alice")
            for name in ("batch", "urgent"):
                app = si.AddApplicationRequest(applicationID=name, queueName=f"root.{name}", ugi=user)
                await applications.send(si.ApplicationRequest(rmID=RM, new=[app]))
            await allocations.send(asks("batch", *(f"batch-{number}" for number in range(1, 5))))

        while True:
            response = await allocations.callbacks.get()
            started = {one.allocationKey: one for one in response.new if one.UUID not in tasks}  # not repeated
            for key, one in started.items():
                print(f"start {key} on {one.nodeID}", flush=True)
                tasks[one.UUID] = key
            for release in response.released:
                if task := tasks.get(release.UUID):
                    print(f"stop {task}: {si.TerminationType.Name(release.terminationType)}", flush=True)
                    tasks[release.UUID] = ""
                if release.terminationType != si.STOPPED_BY_RM:  # requested by the scheduler: confirm it
                    await allocations.send(releases(release))
            file.write_text(json.dumps(tasks))

            if "batch-4" in started:  # the node is full
                await allocations.send(asks("urgent", "urgent-1", urgent=True))
            if "urgent-1" in started:  # it is done; the next task starts when this program runs again
                uuid, ended = started["urgent-1"].UUID, si.STOPPED_BY_RM
                done = si.AllocationRelease(applicationID="urgent", UUID=uuid, terminationType=ended)
                await allocations.send(releases(done))
                await allocations.send(asks("batch", "late-1"))
            if started.keys() & {"urgent-1", "late-1"}:
                return


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} grpc://127.0.0.1:3333 STATE_FILE")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
