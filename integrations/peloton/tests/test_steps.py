"""Work over all pools is divided: into facts that fit into messages of the log, and into parts of commits."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from remuda_peloton import commands, facts
from remuda_peloton.core import Core
from remuda_peloton.evolve import evolve
from remuda_peloton.limits import ENTITLEMENTS_PER_FACT, POOLS_PER_LOOK
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Periods
from remuda_peloton.shell.deciding import Deciding
from remuda_peloton.shell.machine import ResmgrMachine
from remuda_peloton.wire.messages import read_fact, write_fact

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


async def admitted(deciding: Deciding, core: Core) -> Counter[str]:
    """Gangs that the next commit admits, by pool."""
    commit, _ = await deciding.commit(deque(), 1)
    found = [read_fact(fact) for one in commit.decisions if one.command == "Admit" for fact in one.facts]
    return Counter(core.state.gangs[one.number].pool_id for one in found if isinstance(one, facts.GangAdmitted))


def core_with_gangs(pools: int, gangs: int, cpu: float = 0.01) -> tuple[Core, list[str]]:
    """With gangs of one task in each pool, which all fit. And the IDs of the pools."""
    core, ids = core_with(pools), [f"{number:036}" for number in range(pools)]
    core.handle(commands.SetCapacity((1e4, 1e4, 1e4, 1e4)), 1)
    for pool_id in ids:
        tasks = [
            Task(f"{pool_id}-{n}", f"{pool_id}-{n}-1", (cpu, 0.0, 0.0, 0.0), preemptible=True) for n in range(gangs)
        ]
        core.handle(commands.EnqueueGangs(pool_id, tuple((task,) for task in tasks)), 1)
    core.handle(commands.CalculateEntitlements(), 1)
    return core, ids


async def test_a_pass_that_is_cut_short_goes_on_with_the_other_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the facts of a commit, or by ready gangs: a leaf with many gangs does not take all of them."""
    monkeypatch.setattr("remuda_peloton.shell.deciding.FACTS_PER_COMMIT", 10)
    core, ids = core_with_gangs(3, 30)
    now_ms = [1]
    deciding = ResmgrMachine("peloton.test", core, Periods(entitlement_s=3_600.0)).deciding(lambda: now_ms[0])
    seen = []
    for _ in range(6):
        seen.append(await admitted(deciding, core))
        now_ms[0] += 30_000
    assert seen == [{one: 10} for one in (*ids, *ids)]
    monkeypatch.setattr("remuda_peloton.shell.deciding.READY_GANGS", 61)
    monkeypatch.setattr("remuda_peloton.decide.admission.READY_GANGS", 61)
    seen = []
    for _ in range(3):
        seen.append(await admitted(deciding, core))
        core.handle(commands.DequeueGangs(1), now_ms[0])
        now_ms[0] += 30_000
    assert seen == [{one: 1} for one in ids]


async def test_a_pass_over_many_leaves_takes_a_part_of_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_peloton.shell.deciding.ADMISSION_S", 0.0)
    core, ids = core_with_gangs(3, 1)
    now_ms = [1]
    deciding = ResmgrMachine(
        "peloton.test", core, Periods(entitlement_s=3_600.0, preemption_s=3_600.0, admission_s=3_600.0)
    ).deciding(lambda: now_ms[0])
    seen = []
    for _ in ids:
        seen.append(await admitted(deciding, core))
        assert not core.state.waiting or (deciding.idle_s() or 0.0) < 30.0
        now_ms[0] += 30_000
    assert seen == [{one: 1} for one in ids]


async def test_a_preemption_cycle_goes_on_in_the_next_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And counts each pool once, with RPCs between its parts."""
    monkeypatch.setattr("remuda_peloton.shell.deciding.PREEMPTION_S", 0.0)
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


async def test_victims_of_one_pool_are_preempted_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended in between is passed over."""
    monkeypatch.setattr("remuda_peloton.shell.deciding.PREEMPTION_S", 0.0)
    monkeypatch.setattr("remuda_peloton.shell.deciding.VICTIMS_PER_STEP", 10)
    core, (pool_id,) = core_with_gangs(1, 35, 0.1)
    core.handle(commands.Admit(), 1)
    pool = core.state.pools[pool_id]
    pool.over_count = core.settings.sustained_over_allocation_count - 1
    core.handle(commands.SetCapacity((0.05, 0.0, 0.0, 0.0)), 1)
    now_ms = 1
    deciding = ResmgrMachine("peloton.test", core, Periods(entitlement_s=3_600.0, admission_s=3_600.0)).deciding(
        lambda: now_ms
    )
    now_ms += 60_000
    moved = []
    for number in range(4):
        if number == 2:
            core.handle(commands.KillTasks((f"{pool_id}-22",)), now_ms)
        commit, _ = await deciding.commit(deque(), 1)
        found = [read_fact(fact) for one in commit.decisions if one.command == "Preempt" for fact in one.facts]
        moved.append(sum(isinstance(one, facts.TaskRequeued) for one in found))
    assert moved == [10, 10, 4, 0]
    assert pool.over_count == 0 and pool.allocation.total[0] == pytest.approx(1.0)
