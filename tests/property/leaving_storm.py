"""Storms of all kinds in which nodes leave at a time, by their attribute or as an operator has said, and asks have
bounds around these times."""

from __future__ import annotations

from msgspec.structs import replace

from remuda_core import commands
from remuda_core.actions import DrainNode
from remuda_core.commands import Command

from .device_storm import DeviceStorm
from .storm import Storm
from .topology_storm import TopologyStorm

MINUTE_MS = 60_000


class LeavingStorm(Storm):
    def node(self, node_id: str) -> Command:
        return self.leaving(super().node(node_id))

    def on_node(self) -> Command:
        partition = self.partition()
        if partition.nodes and self.random.random() < 0.3:
            return self.leaving(
                commands.UpdateNode(partition.name, self.random.choice(list(partition.nodes)), "UPDATE")
            )
        return super().on_node()

    def leaving(self, command: Command) -> Command:
        assert isinstance(command, commands.UpdateNode)
        if self.random.random() < 0.4:
            return command
        text = str(self.soon_ms()) if self.random.random() < 0.7 else ""
        return replace(command, attributes={**command.attributes, "remuda/leavesAt": text})

    def soon_ms(self) -> int:
        minutes = self.random.choice((0, 1, 1, 2, 5, 10, 65, 130))
        return self.world.now_ms + minutes * MINUTE_MS + self.random.choice((1, 5_000, 6_000, 40_000))

    def administer(self) -> Command:
        command = super().administer()
        if isinstance(command, commands.Administer) and isinstance(command.action, DrainNode):
            from_ms = self.soon_ms() if self.random.random() < 0.8 else 0
            return replace(command, action=replace(command.action, from_ms=from_ms))
        return command

    def ask(self) -> Command:
        command = super().ask()
        if not isinstance(command, commands.SubmitAsk) or self.random.random() < 0.3:
            return command
        bound_ms = self.random.choice((1_000, MINUTE_MS, 2 * MINUTE_MS, 9 * MINUTE_MS, 64 * MINUTE_MS))
        return replace(command, ask=replace(command.ask, execution_timeout_ms=bound_ms))


class LeavingDeviceStorm(LeavingStorm, DeviceStorm):
    pass


class LeavingTopologyStorm(LeavingStorm, TopologyStorm):
    pass
