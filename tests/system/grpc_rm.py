"""An RM over gRPC, as a process of its own: its code is generated from a .proto file that it is given, and it imports
nothing of this repository, like a client in another language.

    python grpc_rm.py PROTO ADDRESS RM_ID NODES ASKS

Registers, reports nodes, submits an application, asks, drains a node, confirms and releases everything. Prints one JSON
object.
"""

from __future__ import annotations

import importlib
import json
import queue
import shutil
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc_tools
from grpc_tools import protoc

DONE = object()


def generate(proto: Path, target: Path) -> tuple[Any, Any]:
    """Modules of the messages and of the stubs."""
    shutil.copy(proto, target / "given.proto")
    bundled = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{target}", f"-I{bundled}", f"--python_out={target}", f"--grpc_python_out={target}"]
    if protoc.main(["protoc", *arguments, str(target / "given.proto")]):
        raise SystemExit("protoc failed")
    sys.path.insert(0, str(target))
    return importlib.import_module("given_pb2"), importlib.import_module("given_pb2_grpc")


class Stream:
    """One bidirectional stream: requests are put in, responses arrive in a queue."""

    def __init__(self, method: Any) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = method(iter(self._requests.get, DONE))
        threading.Thread(target=self._receive, daemon=True).start()

    def send(self, request: Any) -> None:
        self._requests.put(request)

    def next(self) -> Any:
        response = self.responses.get(timeout=30)
        if isinstance(response, grpc.RpcError):
            raise response
        return response

    def close(self) -> None:
        self._requests.put(DONE)
        self._call.cancel()

    def _receive(self) -> None:
        try:
            for response in self._call:
                self.responses.put(response)
        except grpc.RpcError as error:
            self.responses.put(error)


def amounts(si: Any, vcore: int, memory: int) -> Any:
    return si.Resource(resources={"vcore": si.Quantity(value=vcore), "memory": si.Quantity(value=memory)})


def run(si: Any, stub: Any, rm_id: str, node_count: int, ask_count: int) -> dict[str, Any]:
    stub.RegisterResourceManager(si.RegisterResourceManagerRequest(rmID=rm_id, version="1"))
    nodes, applications, allocations = (
        Stream(method) for method in (stub.UpdateNode, stub.UpdateApplication, stub.UpdateAllocation)
    )
    told: dict[str, Any] = {}

    create = [
        si.NodeInfo(nodeID=f"n{n:04}", action=si.NodeInfo.CREATE, schedulableResource=amounts(si, 10_000, 10_000))
        for n in range(node_count)
    ]
    nodes.send(si.NodeRequest(rmID=rm_id, nodes=create))
    accepted = 0
    while accepted < node_count:
        accepted += len(nodes.next().accepted)
    told["nodes"] = accepted

    user = si.UserGroupInformation(user="alice")
    added = si.AddApplicationRequest(applicationID="app-1", ugi=user, tags={"namespace": "sandbox"})
    applications.send(si.ApplicationRequest(rmID=rm_id, new=[added]))
    told["applications"] = [one.applicationID for one in applications.next().accepted]

    for start in range(0, ask_count, 1_000):
        asks = [
            si.AllocationAsk(applicationID="app-1", allocationKey=f"k{n}", maxAllocations=1,
                             resourceAsk=amounts(si, 10, 10))
            for n in range(start, min(start + 1_000, ask_count))
        ]  # fmt: skip
        allocations.send(si.AllocationRequest(rmID=rm_id, asks=asks))
    placed: dict[str, Any] = {}
    while len(placed) < ask_count:
        response = allocations.next()
        assert not response.rejected, response.rejected
        for one in response.new:
            assert one.allocationKey not in placed, one.allocationKey
            placed[one.allocationKey] = one
    told["allocated"] = len(placed)
    told["by_node"] = sorted(Counter(one.nodeID for one in placed.values()).values())

    drain = si.NodeInfo(nodeID="n0000", action=si.NodeInfo.DRAIN_NODE)
    nodes.send(si.NodeRequest(rmID=rm_id, nodes=[drain]))
    releases = [
        si.AllocationRelease(applicationID="app-1", UUID=one.UUID, terminationType=si.STOPPED_BY_RM)
        for one in placed.values()
    ]
    for start in range(0, ask_count, 1_000):
        some = si.AllocationReleasesRequest(allocationsToRelease=releases[start : start + 1_000])
        allocations.send(si.AllocationRequest(rmID=rm_id, releases=some))
    released: set[str] = set()
    while len(released) < ask_count:
        released.update(one.UUID for one in allocations.next().released)
    told["released"] = len(released)

    again = si.AllocationAsk(applicationID="app-1", allocationKey="last", maxAllocations=node_count - 1,
                             resourceAsk=amounts(si, 9_000, 9_000))  # fmt: skip
    allocations.send(si.AllocationRequest(rmID=rm_id, asks=[again]))
    on: list[str] = []
    while len(on) < node_count - 1:
        on += [one.nodeID for one in allocations.next().new]
    told["after_drain"] = sorted(on)

    states: list[str] = []
    while states[-2:] != ["Completing", "Running"]:  # they come on a stream of their own
        states += [one.state for one in applications.next().updated]
    told["states"] = states
    for stream in (nodes, applications, allocations):
        stream.close()
    return told


def main() -> None:
    proto, address, rm_id, node_count, ask_count = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        si, services = generate(Path(proto), Path(directory))
        with grpc.insecure_channel(address) as channel:
            print(json.dumps(run(si, services.SchedulerStub(channel), rm_id, int(node_count), int(ask_count))))


if __name__ == "__main__":
    main()
