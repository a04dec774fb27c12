"""Gauges of the state."""

from __future__ import annotations

from remuda_bus.metrics import REGISTRY
from remuda_resmgr import commands
from remuda_resmgr.settings import Settings
from remuda_resmgr.shell.metrics import measure
from services.resmgr.tests.world import World


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"remuda_resmgr_{name}", labels)


def test_gauges_follow_the_state() -> None:
    world = World(Settings())
    world.enqueue("a", [1, 2], 0.01, (True, False, False), 0)
    measure(world.state)
    assert (value("tasks", state="PENDING"), value("ready_gangs")) == (2, 0)
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())
    measure(world.state)
    assert (value("tasks", state="READY"), value("ready_gangs")) == (2, 1)
    assert value("tasks", state="PENDING") is None, "what has gone is gone"
    assert (value("placements"), value("orphans")) == (0, 0)
