"""The objects of a storm, and the actions of operators on them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from remuda_core import commands
from remuda_core.actions import (
    Action,
    ChangeAskPriority,
    DrainNode,
    HoldQueue,
    KillApplication,
    MoveApplication,
    ReleaseOneAllocation,
    ResumeQueue,
    UndrainNode,
)
from remuda_core.commands import Command
from remuda_core.settings import PartitionSettings, QueueSettings
from remuda_core.state import Partition, Queue
from remuda_proto.guests import prefix_of

from .world import RM, World

FIRST = f"[{RM}]default"
# Names in commands that come while nothing is known of the RM.
NO_PARTITION = Partition(
    FIRST,
    PartitionSettings("default", QueueSettings("root")),
    Queue("root", None, False, True, QueueSettings("root")),
    {},
)


class Known:
    """Names for commands: mostly of objects that exist."""

    random: Random
    world: World
    made = 0
    guests = 0  # so many of ten applications are

    def partition(self) -> Partition:
        known = list(self.world.state.partitions.values()) or [NO_PARTITION]
        return known[0] if self.random.random() < 0.9 else known[-1]

    def some(self, known: Sequence[str], prefix: str) -> str:
        return (
            self.random.choice(known)
            if known and self.random.random() < 0.97
            else f"{prefix}{self.random.randint(0, 9)}"
        )

    def application(self, partition: Partition) -> str:
        alive = [a.id for a in partition.applications.values() if not a.terminal]
        return self.some(alive if self.random.random() < 0.95 else list(partition.applications), "app-")

    def application_id(self, number: int) -> str:
        return f"{prefix_of('default') if number < self.guests else ''}app-{number}"

    def new(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"


class Operators(Known):
    def administer(self) -> Command:
        """Mostly by an operator who may."""
        partition, random = self.partition(), self.random
        node_id, app_id = self.some(list(partition.nodes), "n"), self.application(partition)
        application = partition.applications.get(app_id)
        leaves = [path for path, queue in partition.queues.items() if queue.leaf]
        held = [path for name, path in self.world.state.holds if name == partition.name]
        drained = [name for _, name in self.world.state.drains]
        chosen = random.choices(("move", "hold", "resume", "kill", "drain", "undrain", "ask", "release"),
                                (12, 3, 6 if held else 1, 1, 1, 2 if drained else 0, 3, 3))[0]  # fmt: skip
        action: Action
        if chosen == "move":
            action = MoveApplication(app_id, random.choice((*leaves, *leaves, *partition.queues, "root.x")))
        elif chosen == "hold":
            action = HoldQueue(random.choice((*leaves, *partition.queues, "root.x")))
        elif chosen == "resume":
            action = ResumeQueue(random.choice(held or list(partition.queues) or ["root"]))
        elif chosen == "kill":
            action = KillApplication(app_id)
        elif chosen == "drain":
            action = DrainNode(node_id)
        elif chosen == "undrain":
            action = UndrainNode(random.choice(drained))
        elif chosen == "ask":
            key = self.some(list(application.asks) if application else [], "k")
            action = ChangeAskPriority(app_id, key, random.choice((-1, 0, 1, 2)))
        else:
            action = ReleaseOneAllocation(self.some(list(partition.allocations), "uuid-"))
        operator = "admin" if random.random() < 0.97 else "mallory"
        action_id = self.new("action-") if random.random() < 0.97 else "action-1"
        return commands.Administer(
            operator, (), operator == "admin", "because", action_id, random.random() < 0.8, partition.name, action
        )
