"""Reports of hosts and of job managers: laws for any play, and who may send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.peloton.tests.world import LEAVES, World, steps, take
from remuda_peloton import commands
from remuda_peloton.rules.access import RECONCILE, Clients, Forbidden, check_pool_access
from remuda_peloton.rules.lifecycle import LAUNCHING, ON_HOST
from remuda_peloton.settings import Settings
from remuda_peloton.shell.front import pools_of
from remuda_peloton.state import Run
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

ages = st.sampled_from((0.0, 60.0, 1e6))
plays = given(ages, st.lists(steps, max_size=30), st.integers(0, 2**32), st.integers(0, 100_000))


def all_runs(world: World) -> dict[str, Run]:
    state = world.state
    return {run.task.mesos_id: run for run in (*state.runs.values(), *state.orphans.values())}


def played(age_s: float, steps: list[Any]) -> World:
    world = World(Settings(reconciliation_age_s=age_s))
    for step in steps:
        take(world, step)
    world.now_ms += 120_000
    world.do(commands.Admit())
    return world


@plays
def test_a_run_that_its_host_does_not_have_is_lost_if_it_is_older_than_the_report(
    age_s: float, played_steps: list[Any], chosen: int, back_ms: int
) -> None:
    world = played(age_s, played_steps)
    before, as_of_ms = all_runs(world), world.state.now_ms - back_ms
    has = {run_id for place, run_id in enumerate(before) if chosen >> place % 32 & 1}
    reports = tuple(
        commands.Report(host, tuple(run_id for run_id in has if before[run_id].hostname == host))
        for host in {run.hostname for run in before.values() if run.hostname}
    )
    answer = world.do(commands.ReconcileHosts(as_of_ms, (*reports, *reports)))
    should = {
        run_id for run_id, run in before.items()
        if run.hostname and run_id not in has and run.state in ON_HOST and run.since_ms < as_of_ms - age_s * 1_000
    }  # fmt: skip
    assert set(answer.ended) == should == before.keys() - all_runs(world).keys()
    assert set(answer.unknown) == {
        run_id for run_id in has if before[run_id].hostname and before[run_id].state not in ON_HOST | {LAUNCHING}
    }


@plays
def test_a_run_that_no_job_manager_knows_is_killed_if_it_is_older_than_the_report(
    age_s: float, played_steps: list[Any], chosen: int, back_ms: int
) -> None:
    world = played(age_s, played_steps)
    before, as_of_ms = all_runs(world), world.state.now_ms - back_ms
    tracked = {run.task.mesos_id for run in world.state.runs.values()}
    knows = {run_id for place, run_id in enumerate(before) if chosen >> place % 32 & 1}
    reports = tuple(
        commands.Report(leaf, tuple(run_id for run_id in knows if before[run_id].pool_id == leaf)) for leaf in LEAVES
    )
    answer = world.do(commands.ReconcilePools(as_of_ms, (*reports, commands.Report("a", ("t99-1", *knows)))))
    should = {
        run_id for run_id in tracked - knows if before[run_id].known_ms < as_of_ms - age_s * 1_000
    }  # fmt: skip
    assert set(answer.ended) == should == before.keys() - all_runs(world).keys()
    assert answer.unknown == ("t99-1",)


def test_without_a_time_nothing_is_ended() -> None:
    world = played(0.0, [])
    world.enqueue("a", [1], 0.01, (True, False, False), 0)
    world.now_ms += 1_000
    answer = world.do(commands.ReconcilePools(0, (commands.Report("a", ()),)))
    assert answer == commands.Reconciled(world.now_ms, (), ())
    assert world.do(commands.ReconcilePools(answer.now_ms, (commands.Report("a", ()),))).ended == ("t1-1",)


def test_a_job_manager_reports_its_own_pools() -> None:
    world = World(Settings())
    clients = Clients(("jobs-b=jobs:/b", "hosts=hosts"))
    request = hosts_pb2.ReconcilePoolsRequest()
    request.pools.add(pool_id="b1")
    request.pools.add(pool_id="a")
    paths = clients.paths({"jobs-b"}, RECONCILE)
    b1, a = pools_of(world.state, RECONCILE, request)
    check_pool_access(paths, RECONCILE, b1, world.state.configs)
    with pytest.raises(Forbidden):
        check_pool_access(paths, RECONCILE, a, world.state.configs)
    for role, rpc in (("hosts", RECONCILE), ("jobs-b", "ReconcileHosts")):
        with pytest.raises(Forbidden):
            clients.paths({role}, rpc)
