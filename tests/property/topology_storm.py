"""Storms in partitions with zones and racks: groups, slices, nodes that move, and configurations with other levels."""

from __future__ import annotations

from msgspec.structs import replace

from remuda_core import commands
from remuda_core.commands import Command
from remuda_core.facts import Allocated
from remuda_core.settings import Configuration, PartitionSettings, TopologyLevel
from remuda_core.state import Partition

from .storm import Storm

ZONE, RACK = TopologyLevel("zone", "zone"), TopologyLevel("rack", "rack")
PREFIX = "remuda/topology."
LEVELS = ("zone", "rack", "rack", "host")


class TopologyStorm(Storm):
    def configuration(self) -> Configuration:
        found = super().configuration()
        self.last = replace(found, compatibility="none")
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        levels = self.random.choice(((ZONE, RACK),) * 9 + ((RACK,), ()))
        return replace(super().settings(name), topology=levels)

    def submit(self) -> Command:
        command = super().submit()
        if isinstance(command, commands.SubmitApplication) and self.random.random() < 0.15:
            key = PREFIX + self.random.choice(("required", "preferred"))
            return replace(command, tags={**command.tags, key: self.random.choice(("zone", "rack"))})
        return command

    def wish(self) -> dict[str, str]:
        random, found = self.random, dict[str, str]()
        if random.random() < 0.25:
            return found
        if random.random() < 0.6:
            found[PREFIX + "required"] = random.choice(LEVELS)
        if random.random() < 0.4:
            found[PREFIX + "preferred"] = random.choice(LEVELS)
        if random.random() < 0.15:
            found[PREFIX + "spread"] = random.choice(LEVELS)
        if random.random() < 0.2:
            found[PREFIX + "slice"] = random.choice(("rack/2", "rack/2", "zone/2", "host/2", "rack/1"))
        if random.random() < 0.6:
            found[PREFIX + "group"] = random.choice(("g", "h"))
        if random.random() < 0.2:
            found[PREFIX + "size"] = random.choice(("1", "2", "4"))
        return found

    def ask(self) -> Command:
        command = super().ask()
        if not isinstance(command, commands.SubmitAsk):
            return command
        ask, random = command.ask, self.random
        count = random.choice((1, 1, 2, 4)) if not self.gangs else ask.max_allocations
        return commands.SubmitAsk(replace(ask, tags={**ask.tags, **self.wish()}, max_allocations=count))

    def running(self, partition: Partition, node_id: str) -> Allocated:
        found = super().running(partition, node_id)
        return replace(found, tags={**found.tags, **self.wish()})

    def node(self, node_id: str) -> Command:
        command = super().node(node_id)
        assert isinstance(command, commands.UpdateNode)
        return self.placed(command)

    def on_node(self) -> Command:
        command = super().on_node()
        if isinstance(command, commands.UpdateNode) and command.action == "UPDATE" and self.random.random() < 0.5:
            return self.placed(command)
        return command

    def placed(self, command: commands.UpdateNode) -> commands.UpdateNode:
        random, where = self.random, dict[str, str]()
        if random.random() < 0.95:
            where["zone"] = random.choice(("y", "z"))
        if random.random() < 0.95:
            where["rack"] = random.choice(("1", "1", "2"))
        return replace(command, attributes={**command.attributes, **where})
