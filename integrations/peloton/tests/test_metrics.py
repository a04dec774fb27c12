"""Gauges of the state."""

from __future__ import annotations

import pytest

from integrations.peloton.tests.world import World
from remuda_bus.metrics import REGISTRY
from remuda_peloton import commands
from remuda_peloton.settings import Settings
from remuda_peloton.shell.metrics import measure


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


def test_pools_have_the_amounts_of_those_below_them() -> None:
    world = World(Settings())
    world.enqueue("b1", [1], 0.1, (True, False, False), 0)
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())
    world.enqueue("b2", [2], 0.02, (True, True, False), 0)
    measure(world.state)
    assert (value("pools"), value("pool_reservation", pool="/b/b1", kind="cpu")) == (4, 30.0)
    assert value("pool_limit", pool="/", kind="cpu") == 100.0
    for path in ("/", "/b", "/b/b1"):
        assert value("pool_allocated", pool=path, kind="cpu") == 10.0
    assert value("pool_entitlement", pool="/b/b1", kind="cpu") == world.state.pools["b1"].entitlement[0] > 0
    for path in ("/", "/b", "/b/b2"):
        assert value("pool_demand", pool=path, kind="memory") == pytest.approx(20.0)
    assert value("pool_demand", pool="/b/b1", kind="memory") == 0


def test_only_pools_near_root_have_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_peloton.shell.metrics.METRIC_POOLS", 2)
    world = World(Settings())
    measure(world.state)
    assert {path for path in ("/", "/a", "/b", "/b/b1") if value("pool_limit", pool=path, kind="cpu")} == {
        "/",
        "/a",
        "/b",
    }
