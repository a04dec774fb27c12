"""An operator: a process that acts on what the RMs run, as the state in their logs has it. It repeats a request that is
not answered, and never knows whether the first one was handled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_core.state import Partition, State
from remuda_operations.operator_api.methods import plain
from remuda_operations.operators import NO_GROUPS
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_rmproxy.records.status_codes import OUTAGE

from .auditor import Auditor
from .story import Story, Violation

NAME = "ops"  # the adminacl of the queues in `resource_manager.CONFIGURATIONS`, and the scheduler's access list
NOBODY = "eve"
WRONG = 0.1  # how often NOBODY acts
TIMEOUT_S = 4.0  # shorter than rmproxy waits for a core
GIVEN_UP = 0.1  # how often a request without an answer is not repeated
ASKED_AGAIN = 0.15  # how often one with an answer is
INTERNAL = 500
PACE_S = (0.5, 2.0, 30.0)
PAUSE_S = 60.0  # at most: a request that waits for an answer is repeated before the simulation gives up


@dataclass(frozen=True, slots=True)
class Request:
    rm_id: str
    kind: str
    operator: str
    action_id: str
    payload: bytes

    @property
    def unique_id(self) -> str:
        """As the log has it."""
        return f"{self.operator}/{self.action_id}"


class Operator:
    """`resting`: it takes back what it holds and drains, and does nothing else. `answers`: of each RM, accepted or
    refused by the ID in the log."""

    def __init__(self, random: Random, story: Story, auditors: Sequence[Auditor]) -> None:
        self.resting = False
        self._random = random
        self._story = story
        self._auditors = auditors
        self._pace_s = random.choice(PACE_S)
        self._actions = 0
        self.answers: dict[str, dict[str, str]] = {auditor.rm_id: {} for auditor in auditors}
        self._pending: Request | None = None
        self._answered: list[Request] = []

    @property
    def waits(self) -> bool:
        return self._pending is not None

    async def main(self, bus: Bus) -> None:
        while True:
            pause_s = 0.5 if self.resting else self._random.expovariate(1 / self._pace_s)
            await asyncio.sleep(min(pause_s, PAUSE_S))
            if self._pending is not None:
                await self._ask(bus, self._pending)
                continue
            for auditor in self._auditors if self.resting else [self._random.choice(self._auditors)]:
                partition = next(iter(auditor.core.state.partitions.values()), None)
                action = self._choose(auditor.core.state, partition) if partition is not None else None
                if action is not None and self._pending is None:
                    self._pending = self._request(auditor.rm_id, action)
                    await self._ask(bus, self._pending)

    def _choose(self, state: State, partition: Partition) -> inbox_pb2.Administer | None:
        """None: there is nothing to act on."""
        random = self._random
        held = [path for name, path in state.holds if name == partition.name]
        drained = [node_id for name, node_id in state.drains if name == partition.name]
        if held and (self.resting or random.random() < 0.4):
            return inbox_pb2.Administer(resume_queue=inbox_pb2.ResumeQueue(queue=random.choice(held)))
        if drained and (self.resting or random.random() < 0.4):
            return inbox_pb2.Administer(undrain_node=inbox_pb2.UndrainNode(node_id=random.choice(drained)))
        if self.resting:
            return None
        leaves = [path for path, queue in partition.queues.items() if queue.leaf]
        alive = [application for application in partition.applications.values() if not application.terminal]
        kind = random.choices(("move", "hold", "drain", "kill", "ask", "release"), (8, 1, 1, 1, 3, 3))[0]
        if kind == "hold":
            return inbox_pb2.Administer(hold_queue=inbox_pb2.HoldQueue(queue=random.choice(leaves)))
        if kind == "drain" and partition.nodes:
            return inbox_pb2.Administer(drain_node=inbox_pb2.DrainNode(node_id=random.choice(list(partition.nodes))))
        if kind == "release" and partition.allocations:
            uuid = random.choice(list(partition.allocations))
            return inbox_pb2.Administer(release_one_allocation=inbox_pb2.ReleaseOneAllocation(uuid=uuid))
        if not alive:
            return None
        application = random.choice(alive)
        if kind == "kill":
            return inbox_pb2.Administer(kill_application=inbox_pb2.KillApplication(application_id=application.id))
        if kind == "ask" and application.asks:
            change = inbox_pb2.ChangeAskPriority(
                application_id=application.id,
                allocation_key=random.choice(list(application.asks)),
                priority=random.choice((-1, 0, 1, 2)),
            )
            return inbox_pb2.Administer(change_ask_priority=change)
        move = inbox_pb2.MoveApplication(application_id=application.id, queue=random.choice(leaves))
        return inbox_pb2.Administer(move_application=move)

    def _request(self, rm_id: str, action: inbox_pb2.Administer) -> Request:
        """The request for the action, or for one that was answered before."""
        if self._answered and self._random.random() < ASKED_AGAIN:
            return self._random.choice(self._answered)
        self._actions += 1
        kind = action.WhichOneof("action")
        assert kind is not None
        fields = {field.name: plain(value) for field, value in getattr(action, kind).ListFields()}
        if kind == "change_ask_priority":
            fields["priority"] = action.change_ask_priority.priority  # 0 is not listed
        options = {"force": self._random.random() < 0.5, "reason": "the simulation wants it"}
        operator = NOBODY if self._random.random() < WRONG else NAME
        payload = {"action_id": f"a{self._actions}", **fields, **options}
        return Request(rm_id, kind, operator, f"a{self._actions}", json.dumps(payload).encode())

    async def _ask(self, bus: Bus, request: Request) -> None:
        """Without an answer, the request stays pending: this process, or the next, asks again under the same ID."""
        subject = subjects.administration(request.operator, NO_GROUPS, request.rm_id, request.kind)
        try:
            reply = await bus.request(subject, request.payload, timeout_s=TIMEOUT_S)
        except BusError as error:
            self._story.tell(f"{request.unique_id}: no answer, {error}")
            if isinstance(error, Refused) and error.code == INTERNAL:
                raise Violation(f"{request.kind} {request.payload!r}: {error}") from None
            is_refused = isinstance(error, Refused) and error.code != OUTAGE  # there is no command
            if is_refused or (not self.resting and self._random.random() < GIVEN_UP):
                self._pending = None
            return
        answer = json.loads(reply.payload)
        self._story.tell(f"{request.unique_id}: {request.kind} {answer['outcome']} {answer['reason']}")
        if answer["outcome"] != "undecided":
            self._take(request, answer["outcome"])

    def _take(self, request: Request, outcome: str) -> None:
        known = self.answers[request.rm_id].setdefault(request.unique_id, outcome)
        if known != outcome:
            raise Violation(f"{request.unique_id} was {known} and is {outcome} when asked again")
        self._answered = [*self._answered[-5:], request]
        self._pending = None
