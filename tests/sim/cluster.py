"""The real state of a resource manager: its nodes, running allocations and asks. It survives the RM's
process, as containers do, and it is the RM's view of things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from remuda_core.core import Core
from remuda_proto.guests import is_guest
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import Callback, node

from .story import Violation

OVER = ("Completed", "Failed", "Killed", "Rejected")
AskId = tuple[str, str]


class Cluster:
    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id
        self.registered = False
        self.nodes: dict[str, int] = {}  # vcore
        self.running: dict[str, si.Allocation] = {}
        self.ended: dict[str, si.Allocation] = {}
        self.heard: list[str] = []  # allocations, in order, since the registration
        self.registration = 0  # the number of the last
        self.in_doubt = True  # what the scheduler knows: everything has to be reported
        self.applications: dict[str, si.AddApplicationRequest] = {}
        self.asked: dict[AskId, si.AllocationAsk] = {}  # surely, and neither taken back nor refused
        self.made: Counter[AskId] = Counter()
        self.letters = 0

    def hear(self, callback: Callback, this_life: set[str]) -> Iterator[str]:
        """Takes it; yields what is worth telling."""
        match callback:
            case si.AllocationResponse():
                yield from self._hear_allocations(callback, this_life)
            case si.ApplicationResponse():
                over = [updated.applicationID for updated in callback.updated if updated.state in OVER]
                for app_id in over + [rejected.applicationID for rejected in callback.rejected]:
                    self.forget(app_id)
            case si.NodeResponse() | si.UpdateContainerSchedulingStateRequest() | si.EventRecord():
                pass
            case _:
                self.letters += 1

    def _hear_allocations(self, response: si.AllocationResponse, this_life: set[str]) -> Iterator[str]:
        for new in response.new:
            if new.UUID in this_life:
                raise Violation(f"{self.rm_id} is told twice of allocation {new.UUID}")
            this_life.add(new.UUID)
            if new.UUID not in self.running and new.UUID not in self.ended:
                yield f"starts {new.applicationID}/{new.allocationKey} {new.UUID[-4:]} on {new.nodeID}"
                self.running[new.UUID] = si.Allocation.FromString(new.SerializeToString())
                self.heard.append(new.UUID)
                self.made[new.applicationID, new.allocationKey] += 1
        for released in response.released:
            allocation = self.running.pop(released.UUID, None)
            if allocation is not None:
                reason = si.TerminationType.Name(released.terminationType)
                yield f"ends {released.applicationID} {released.UUID[-4:]}: {reason}"
                self.ended[released.UUID] = allocation
        taken_back = [(ask.applicationID, ask.allocationKey) for ask in response.releasedAsks]
        for ask in taken_back + [(ask.applicationID, ask.allocationKey) for ask in response.rejected]:
            self.asked.pop(ask, None)

    def forget(self, application_id: str) -> None:
        """Its asks are not awaited any more."""
        self.applications.pop(application_id, None)
        for ask in [ask for ask in self.asked if ask[0] == application_id]:
            del self.asked[ask]

    def clear(self) -> None:
        """Everything ends."""
        self.ended.update(self.running)
        for things in (self.running, self.nodes, self.applications, self.asked):
            things.clear()

    def begin_anew(self) -> None:
        """The scheduler has lost its state. Allocations without an application or node end now: they cannot be
        reported."""
        self.heard = []
        for uuid, allocation in list(self.running.items()):
            if allocation.applicationID not in self.applications or allocation.nodeID not in self.nodes:
                self.ended[uuid] = self.running.pop(uuid)

    def node(self, node_id: str, vcore: int, existing: list[si.Allocation]) -> si.NodeInfo:
        return node(node_id, vcore=vcore, existing=existing)

    def report(self) -> tuple[list[si.AddApplicationRequest], list[si.NodeInfo], list[si.AllocationAsk]]:
        """The report to the scheduler, to be sent in this order."""
        nodes = [
            self.node(node_id, vcore, [one for one in self.running.values() if one.nodeID == node_id])
            for node_id, vcore in self.nodes.items()
        ]
        asks = []
        for ask_id, asked in self.asked.items():
            if (left := asked.maxAllocations - self.made[ask_id]) > 0:
                asks.append(si.AllocationAsk.FromString(asked.SerializeToString()))
                asks[-1].maxAllocations = left
        return list(self.applications.values()), nodes, asks

    def compare(self, core: Core, allocated: list[str]) -> None:
        """Its view and the scheduler's, without guests."""
        name = self.rm_id
        partitions = core.state.partitions.values()
        theirs = {
            uuid: one.node.id
            for partition in partitions
            for uuid, one in partition.allocations.items()
            if not is_guest(one.application.id)
        }
        mine = {uuid: allocation.nodeID for uuid, allocation in self.running.items()}
        if mine != theirs:
            raise Violation(f"{name} runs {sorted(mine.items() - theirs.items())} alone, "
                            f"the scheduler knows {sorted(theirs.items() - mine.items())} alone")  # fmt: skip
        if self.heard != allocated:
            wrong = next((pair for pair in zip(self.heard, allocated, strict=False) if pair[0] != pair[1]), None)
            raise Violation(f"{name} heard {len(self.heard)} of {len(allocated)} allocations, differing in {wrong}")
        pending = {
            (app_id, key): ask.pending
            for partition in partitions
            for app_id, application in partition.applications.items()
            for key, ask in application.asks.items()
        }
        for ask, asked in self.asked.items():
            wanted = asked.maxAllocations
            made, left = self.made[ask], pending.get(ask, 0)
            if made + left != wanted:
                raise Violation(f"{name}: of ask {ask} for {wanted}, {made} are made and {left} pending")
