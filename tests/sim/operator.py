"""An operator: a process that acts on what the RMs run, as the state in their logs has it. It repeats a command that is
not answered, and never knows whether the first one was handled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_core.state import Partition, State
from remuda_proto.remuda.v1 import inbox_pb2

from .auditor import Auditor
from .story import Story

NAME = "ops"  # the adminacl of the queues in `resource_manager.CONFIGURATIONS`
PACE_S = (0.5, 2.0, 30.0)
RETRIES = 3


class Operator:
    """`resting`: it takes back what it holds and drains, and does nothing else."""

    def __init__(self, random: Random, story: Story, auditors: Sequence[Auditor]) -> None:
        self.resting = False
        self._random = random
        self._story = story
        self._auditors = auditors
        self._pace_s = random.choice(PACE_S)
        self._actions = 0

    async def main(self, bus: Bus) -> None:
        while True:
            await asyncio.sleep(0.5 if self.resting else self._random.expovariate(1 / self._pace_s))
            for auditor in self._auditors if self.resting else [self._random.choice(self._auditors)]:
                partition = next(iter(auditor.core.state.partitions.values()), None)
                action = self._choose(auditor.core.state, partition) if partition is not None else None
                if partition is not None and action is not None:
                    await self._act(bus, auditor.rm_id, partition, action)

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

    async def _act(self, bus: Bus, rm_id: str, partition: Partition, action: inbox_pb2.Administer) -> None:
        self._actions += 1
        action.operator, action.scheduler_administrator, action.partition = NAME, True, partition.name
        action.action_id, action.reason = f"{NAME}-{self._actions}", "the simulation wants it"
        action.force = self._random.random() < 0.5
        command = inbox_pb2.Command(administer=action, correlation_id=action.action_id)
        for _ in range(RETRIES):
            try:
                await bus.append(subjects.inbox(rm_id), command.SerializeToString())
            except BusError as error:
                self._story.tell(f"{action.action_id}: no answer, {error}")
            else:
                if self._random.random() < 0.9:
                    return
