"""Storms in which `gpu` stands on devices: shares, names, devices that fall ill, and configurations without them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from remuda_core import commands
from remuda_core.commands import Command
from remuda_core.facts import Allocated
from remuda_core.settings import Configuration, PartitionSettings
from remuda_core.state import Partition

from .storm import Storm

UNIT = 4
KEY = "remuda/devices.gpu"


class DeviceStorm(Storm):
    def configuration(self) -> Configuration:
        found = super().configuration()
        self.last = replace(found, compatibility="none")
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        units = self.random.choice(({"gpu": UNIT},) * 8 + ({}, {"gpu": 2}))
        found = replace(super().settings(name), devices=units)
        return replace(found, node_sort="fragmentation") if units and self.made % 2 else found

    def ask(self) -> Command:
        command = super().ask()
        if not isinstance(command, commands.SubmitAsk) or self.random.random() < 0.2:
            return command
        ask, random = command.ask, self.random
        amount = random.choice((1, 1, 2, 2, 3, 4, 4, 8, 8, 12, 5))
        tags = dict(ask.tags)
        if random.random() < 0.2:
            count = random.choice((1, 2, 2, 3, 4))
            amount, tags[KEY + ".count"] = count * random.randint(1, UNIT), str(count)
        if self.gangs and ask.task_group:
            amount = 2
            tags.pop(KEY + ".count", None)
        resource = {**{name: min(1, had) for name, had in ask.resource.items()}, "gpu": amount}
        return commands.SubmitAsk(replace(ask, resource=resource, tags=tags))

    def running(self, partition: Partition, node_id: str) -> Allocated:
        found, random = super().running(partition, node_id), self.random
        tags = {}
        if random.random() < 0.5:
            node = partition.nodes.get(node_id)
            devices = node.devices.get("gpu") if node is not None else None
            known = [*(devices.room if devices is not None else ()), "0", "1", "gone"]
            tags[KEY] = ",".join(random.sample(known, random.randint(1, 2)))
        return replace(found, resource={**found.resource, "gpu": random.randint(0, 6)}, tags=tags)

    def node(self, node_id: str) -> Command:
        command = super().node(node_id)
        assert isinstance(command, commands.UpdateNode)
        return self.with_devices(command, self.random.choice((0, 1, 2, 4, 4)), {})

    def on_node(self) -> Command:
        command = super().on_node()
        if not isinstance(command, commands.UpdateNode) or command.action != "UPDATE":
            return command
        node = self.partition().nodes.get(command.node_id)
        if node is None or (command.capacity is None and self.random.random() < 0.5):
            return command
        had = node.capacity.get("gpu", 0) // UNIT
        return self.with_devices(
            command, had if self.random.random() < 0.6 else self.random.randint(0, 4), node.attributes
        )

    def with_devices(self, command: commands.UpdateNode, count: int, had: Mapping[str, str]) -> commands.UpdateNode:
        random, attributes = self.random, dict(command.attributes)
        names = [str(place) for place in range(count)]
        if KEY in had or random.random() < 0.4:
            names = random.sample([*had.get(KEY, "").split(","), *"abcdefgh"][had.get(KEY, "") == "" :], count)
            names = list(dict.fromkeys(names)) if random.random() < 0.95 else names
            attributes[KEY] = ",".join(names)
        if names and (KEY + ".unfit" in had or random.random() < 0.3):
            attributes[KEY + ".unfit"] = random.choice((*names, "", ""))
        elif had.get(KEY + ".unfit"):
            attributes[KEY + ".unfit"] = ""
        occupied = command.occupied
        if names and random.random() < 0.3:
            occupied = {**(occupied or {}), "gpu": random.randint(0, 3)}
            attributes[KEY + ".occupied"] = f"{random.choice(names)}={random.randint(0, 4)}"
        elif had.get(KEY + ".occupied"):
            attributes[KEY + ".occupied"] = ""
        capacity = {**(command.capacity or {"vcore": 12, "memory": 12}), "gpu": UNIT * count}
        if random.random() < 0.02:
            capacity["gpu"] += 1
        return replace(command, attributes=attributes, capacity=capacity, occupied=occupied)
