"""Storms in partitions with zones and racks: groups, slices, nodes that move, and configurations with other levels."""

from __future__ import annotations

from random import Random

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
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed

    def configuration(self) -> Configuration:
        found = super().configuration()
        delay_ms = self.random.choice((1, 1, 1_000, 10_000, 600_000))
        self.last = replace(found, compatibility="none", timing=replace(found.timing, domain_delay_ms=delay_ms))
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        levels = self.random.choice(((ZONE, RACK),) * 9 + ((RACK, ZONE), (RACK,), ()))
        found = replace(super().settings(name), topology=levels)
        return replace(found, pack="topology") if levels and self.made % 3 == 0 else found

    def submit(self) -> Command:
        command = super().submit()
        if isinstance(command, commands.SubmitApplication) and self.random.random() < 0.15:
            key = PREFIX + self.random.choice(("required", "preferred"))
            return replace(command, tags={**command.tags, key: self.random.choice(("zone", "rack"))})
        return command

    def wish(self, key: str, application_id: str) -> dict[str, str]:
        """A group and what its members want, the same of all of them."""
        if self.random.random() < 0.2:
            return {}
        group = self.random.choice(("g", "h", "i", ""))
        random, found = Random(f"{self.seed} {application_id} {group or key}"), dict[str, str]()
        if group:
            found[PREFIX + "group"] = group
        if random.random() < 0.6:
            found[PREFIX + "required"] = random.choice(LEVELS)
        if random.random() < 0.4:
            found[PREFIX + "preferred"] = random.choice(LEVELS)
        if random.random() < 0.15:
            found[PREFIX + "spread"] = random.choice(LEVELS)
        if random.random() < 0.25:
            found[PREFIX + "slice"] = random.choice(("rack/2", "rack/2", "zone/2", "host/2", "rack/1"))
        if group and random.random() < 0.2:
            found[PREFIX + "size"] = random.choice(("1", "2", "4"))
        return found

    def ask(self) -> Command:
        command = super().ask()
        if not isinstance(command, commands.SubmitAsk):
            return command
        ask, random = command.ask, self.random
        count = random.choice((1, 1, 2, 4)) if not self.gangs else ask.max_allocations
        wish = self.wish(ask.allocation_key, ask.application_id)
        tags, resource = {**ask.tags, **wish}, ask.resource
        if PREFIX + "slice" in wish:  # the oracle knows slices of members that are alike
            resource = {"vcore": 2, "memory": 2}
            tags = {key: value for key, value in tags.items() if not key.endswith("requiredNode")}
        return commands.SubmitAsk(replace(ask, tags=tags, max_allocations=count, resource=resource))

    def running(self, partition: Partition, node_id: str) -> Allocated:
        found = super().running(partition, node_id)
        return replace(found, tags={**found.tags, **self.wish(found.allocation_key, found.application_id)})

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
