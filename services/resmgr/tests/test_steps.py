"""Work over all pools is divided: into facts that fit into messages of the log, and into parts of commits."""

from __future__ import annotations

from collections import deque

import pytest

from remuda_resmgr import commands, facts
from remuda_resmgr.core import Core
from remuda_resmgr.evolve import evolve
from remuda_resmgr.limits import ENTITLEMENTS_PER_FACT, POOLS_PER_LOOK
from remuda_resmgr.rules.pools import KindConfig, PoolConfig
from remuda_resmgr.rules.resources import KINDS
from remuda_resmgr.rules.task import Task
from remuda_resmgr.shell.machine import ResmgrMachine
from remuda_resmgr.shell.periods import Periods
from remuda_resmgr.wire.facts import write_fact

FACT_BYTES = 128 * 1024


def core_with(pools: int) -> Core:
    core = Core()
    for number in range(pools):
        resources = tuple(KindConfig(kind, 1.0, 10.0) for kind in KINDS)
        evolve(core.state, facts.PoolCreated(PoolConfig(f"{number:036}", f"p{number}", resources=resources)))
    return core


def test_entitlements_of_many_pools_are_several_facts() -> None:
    core = core_with(2 * ENTITLEMENTS_PER_FACT + 1)
    found, _ = core.handle(commands.SetCapacity((1e6, 1e6, 1e6, 1e6)), 1)
    changed = [one for one in found if isinstance(one, facts.EntitlementsChanged)]
    assert len(changed) == 3  # root's is one of them
    assert all(write_fact(one).ByteSize() < FACT_BYTES for one in changed)
    named = [pool.pool_id for one in changed for pool in one.pools]
    assert sorted(named) == sorted(core.state.pools)
    assert core.handle(commands.CalculateEntitlements(), 2)[0] == []


async def test_a_preemption_cycle_goes_on_in_the_next_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And counts each pool once, with RPCs between its parts."""
    monkeypatch.setattr("remuda_resmgr.shell.deciding.PREEMPTION_S", 0.0)
    pools, now_ms = 2 * POOLS_PER_LOOK + 10, 1
    core = core_with(pools)
    core.handle(commands.SetCapacity((1e4, 1e4, 1e4, 1e4)), now_ms)
    for number in range(pools):
        task = Task(f"t{number}", f"t{number}-1", (2.0, 0.0, 0.0, 0.0), preemptible=True)
        core.handle(commands.EnqueueGangs(f"{number:036}", ((task,),)), now_ms)
    core.handle(commands.CalculateEntitlements(), now_ms)
    core.handle(commands.Admit(), now_ms)
    core.handle(commands.SetCapacity((0.0, 0.0, 0.0, 0.0)), now_ms)
    deciding = ResmgrMachine("peloton.test", core, Periods(entitlement_s=3_600.0)).deciding(lambda: now_ms)
    now_ms += 60_000
    counted = []
    for _ in range(4):
        commit, _ = await deciding.commit(deque(), 1)
        kinds = [fact for one in commit.decisions if one.command == "Preempt" for fact in one.facts]
        counted.append(len(kinds))
    # Root is among the pools of the first part, and is no leaf.
    assert sorted(counted) == sorted([POOLS_PER_LOOK - 1, POOLS_PER_LOOK, 11, 0])
    assert {pool.over_count for pool in core.state.pools.values() if pool.is_leaf} == {1}
