"""A resource manager with nothing but a NATS client: python with_nats.py nats://127.0.0.1:4222 STATE_FILE

docs/wire-contract.md describes subjects, headers and guarantees. The messages are those of proto/si/v1/si.proto; here
they come from the package remuda-proto. The SDK does more: it retries, splits requests, checks for lost history.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path

import nats
from nats.js import JetStreamContext

from remuda_proto.si.v1 import si_pb2 as si

RM = "example-nats"
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


class Requests:
    """Publishes requests: each is durable when `send` returns, and stored once."""

    def __init__(self, jetstream: JetStreamContext, registration: str) -> None:
        self._jetstream = jetstream
        self._registration = registration

    async def send(self, kind: str, request: si.NodeRequest | si.ApplicationRequest | si.AllocationRequest) -> None:
        headers = {"Nats-Msg-Id": str(uuid.uuid4()), "Remuda-Registration": self._registration}
        await self._jetstream.publish(f"si.v1.rm.{RM}.{kind}", request.SerializeToString(), headers=headers)


async def report(requests: Requests) -> None:
    node = si.NodeInfo(nodeID="node-1", action=si.NodeInfo.CREATE, schedulableResource=cores(4))
    await requests.send("node", si.NodeRequest(rmID=RM, nodes=[node]))
    apps = [
        si.AddApplicationRequest(
            applicationID=name, queueName=f"root.{name}", ugi=si.UserGroupInformation(user="alice")
        )
        for name in ("batch", "urgent")
    ]
    await requests.send("application", si.ApplicationRequest(rmID=RM, new=apps))
    await requests.send("allocation", asks("batch", *(f"batch-{number}" for number in range(1, 5))))


async def handle(response: si.AllocationResponse, tasks: dict[str, str], file: Path, requests: Requests) -> bool:
    """Whether the program is done."""
    started = [one for one in response.new if one.UUID not in tasks]  # repeated ones are known
    for one in started:
        print(f"start {one.allocationKey} on {one.nodeID}", flush=True)
        tasks[one.UUID] = one.allocationKey
    for release in response.released:
        if task := tasks.get(release.UUID):
            print(f"stop {task}: {si.TerminationType.Name(release.terminationType)}", flush=True)
            tasks[release.UUID] = ""
        if release.terminationType != si.STOPPED_BY_RM:  # requested by the scheduler: confirm it
            await requests.send("allocation", releases(release))
    file.write_text(json.dumps(tasks))

    keys = {one.allocationKey: one for one in started}
    if "batch-4" in keys:  # the node is full
        await requests.send("allocation", asks("urgent", "urgent-1", urgent=True))
    if "urgent-1" in keys:  # it is done; the next task starts when this program runs again
        done = si.AllocationRelease(
            applicationID="urgent", UUID=keys["urgent-1"].UUID, terminationType=si.STOPPED_BY_RM
        )
        await requests.send("allocation", releases(done))
        await requests.send("allocation", asks("batch", "late-1"))
    return bool(keys.keys() & {"urgent-1", "late-1"})


async def main(url: str, file: Path) -> None:
    restarted = file.exists()
    tasks: dict[str, str] = json.loads(file.read_text()) if restarted else {}  # by UUID; "" once they have ended
    client = await nats.connect(url)
    jetstream = client.jetstream()

    resync = {"resync": "replay" if restarted else "report"}
    registration = si.RegisterResourceManagerRequest(rmID=RM, config=QUEUES, extraConfig=resync)
    reply = await client.request(f"si.v1.rm.{RM}.register", registration.SerializeToString(), timeout=20)
    if refusal := (reply.headers or {}).get("Nats-Service-Error"):
        raise SystemExit(refusal)
    requests = Requests(jetstream, (reply.headers or {})["Remuda-Registration"])
    if not restarted:
        await report(requests)

    # The scheduler has created the consumer at the registration.
    callbacks = await jetstream.pull_subscribe_bind(f"rm-{RM}", "CALLBACKS")
    done = False
    while not done:
        try:
            messages = await callbacks.fetch(100, timeout=1)
        except TimeoutError:  # there are none; the client raises its own kind or the one of Python
            continue
        for message in messages:
            if message.subject.endswith(".callback.allocation") and not done:
                response = si.AllocationResponse.FromString(message.data)
                done = await handle(response, tasks, file, requests)
            await message.ack_sync()  # only now: an unacknowledged callback is delivered again
            if done:
                break
    await client.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} nats://127.0.0.1:4222 STATE_FILE")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
