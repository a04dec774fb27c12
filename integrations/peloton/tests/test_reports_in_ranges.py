"""Reports of pools that are too large for one message: divided into ranges of runs, they mean the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.peloton.tests.test_server import HOSTS, bus_in, create_pool, fields, identifier, message, server
from integrations.peloton.tests.world import LEAVES, World, steps, take
from remuda_peloton.rules.ranges import Ranges, is_in, overlap
from remuda_peloton.settings import Settings
from remuda_peloton.wire.divide import divided
from remuda_peloton.wire.host_rpcs import RPCS
from remuda_peloton.wire.rpcs import RpcError
from remuda_peloton.wire.snapshots import digest
from remuda_proto.remuda.resmgr.v1 import hosts_pb2 as pb

RECONCILE = RPCS["ReconcilePools"]
ids = st.text("ab\u00e9\U0001f600", max_size=3)
ranges = st.lists(st.tuples(ids, ids), max_size=4)


@given(ranges, ids)
def test_ranges_have_what_one_of_them_has(several: list[tuple[str, str]], one: str) -> None:
    real = [(first, below) for first, below in several if not below or first < below]
    both = [(a, b) for a, b in combinations(real, 2) if is_in(first := max(a[0], b[0]), a) and is_in(first, b)]
    assert overlap(real) == bool(both)
    if not both:
        assert (one in Ranges(real)) == any(is_in(one, each) for each in real)


@given(ids, ids)
def test_ids_are_in_the_order_of_their_bytes(one: str, other: str) -> None:
    assert is_in(one, (other, "")) == (other.encode() <= one.encode())


def _reconciled(world: World, request: pb.ReconcilePoolsRequest) -> Any:
    assert RECONCILE.command is not None and RECONCILE.check is not None
    RECONCILE.check(request)
    return world.do(RECONCILE.command(request))


@given(st.lists(steps, max_size=30), st.integers(0, 2**32), st.integers(90, 400), st.integers(0, 3))
def test_a_divided_report_means_the_same(played: list[Any], chosen: int, limit: int, unknown: int) -> None:
    worlds = [World(Settings(reconciliation_age_s=0.0)) for _ in range(2)]
    for world in worlds:
        for step in played:
            take(world, step)
        world.now_ms += 120_000
    state = worlds[0].state
    knows = [run_id for place, run_id in enumerate(state.task_of) if chosen >> place % 32 & 1]
    request = pb.ReconcilePoolsRequest(as_of_ms=worlds[0].now_ms)
    for leaf in LEAVES:
        tracked = [run_id for run_id in knows if state.task_of[run_id] in state.pools[leaf].runs]
        request.pools.add(pool_id=leaf, run_ids=[*tracked, *(f"t{one}-of-{leaf}" for one in range(unknown))])
    whole = _reconciled(worlds[0], request)
    parts = list(divided(request, limit))
    assert all(part.ByteSize() <= limit for part in parts)
    answers = [_reconciled(worlds[1], part) for part in parts]
    assert sorted(one for answer in answers for one in answer.ended) == sorted(whole.ended)
    assert sorted(one for answer in answers for one in answer.unknown) == sorted(whole.unknown)
    assert digest(worlds[1].state) == digest(worlds[0].state)


def test_a_divided_range_stays_in_it() -> None:
    run_ids = [f"run-{number:03}" for number in range(100)]
    report = pb.RunsOfPool(pool_id="a", run_ids=reversed(run_ids), from_run_id="run-", below_run_id="run-1")
    parts = [one for part in divided(pb.ReconcilePoolsRequest(pools=[report]), 300) for one in part.pools]
    assert len(parts) > 3 and [run_id for part in parts for run_id in part.run_ids] == run_ids
    bounds = [(part.from_run_id, part.below_run_id) for part in parts]
    assert bounds[0][0] == "run-" and bounds[-1][1] == "run-1"
    assert [below for _, below in bounds[:-1]] == [first for first, _ in bounds[1:]]


@pytest.mark.parametrize(
    ("pools", "complaint"),
    [
        ([("a", "c", ["b", "c"])], r"pools\[0\].run_ids has 'c', expected IDs from 'a' on and below 'c'"),
        ([("b", "b", [])], r"pools\[0\] ends at 'b', expected above 'b'"),
        ([("", "", ["b"]), ("", "", ["c"])], r"'pool' is there 2 times, expected once"),
        ([("a", "c", []), ("b", "", [])], r"'pool' is there 2 times, expected once"),
    ],
)
def test_a_report_that_is_not_complete_is_refused(pools: list[tuple[str, str, list[str]]], complaint: str) -> None:
    """Divided, each of two reports of one pool would end what the other one has."""
    request = pb.ReconcilePoolsRequest(
        pools=[pb.RunsOfPool(pool_id="pool", run_ids=ids, from_run_id=a, below_run_id=b) for a, b, ids in pools]
    )
    assert RECONCILE.check is not None
    with pytest.raises(RpcError, match=complaint):
        RECONCILE.check(request)


def test_a_host_is_reported_once() -> None:
    check = RPCS["ReconcileHosts"].check
    assert check is not None
    hosts = [pb.RunsOfHost(hostname=name) for name in ("a", "b", "a")]
    with pytest.raises(RpcError, match="'a' is there 2 times"):
        check(pb.ReconcileHostsRequest(hosts=hosts))
    check(pb.ReconcileHostsRequest(hosts=hosts[:2]))


def test_an_id_that_is_too_long_for_a_part_is_refused() -> None:
    report = pb.RunsOfPool(pool_id="a", run_ids=["x" * 1_000, "y"])
    with pytest.raises(RpcError, match=r"pools\[0\] has"):
        list(divided(pb.ReconcilePoolsRequest(pools=[report]), 500))


def _job_and_run(number: int) -> tuple[str, str]:
    task_id = f"11111111-1111-4111-8111-{number // 1_000:012}-{number % 1_000}"
    return task_id, f"{task_id}-1"


def test_a_pool_of_100_000_runs_is_reported(tmp_path: Path) -> None:
    count, missing = 100_000, range(0, 100_000, 1_000)
    with bus_in(tmp_path) as url, server(url, reconciliation_age_s=0.0) as call:
        pool = create_pool(call)
        pool_id = fields(pool)[1][0]
        for first in range(0, count, 20_000):
            names = [_job_and_run(number) for number in range(first, first + 20_000)]
            tasks = (message(f2=identifier(task_id), f4=identifier(run_id)) for task_id, run_id in names)
            call("RecoverRuns", HOSTS, f1=[message(f1=task, f2=pool_id, f3="LAUNCHED") for task in tasks])
        now_ms = call("ReconcilePools", HOSTS)[1][-1]
        known = [_job_and_run(number)[1] for number in range(count) if number not in missing]
        report = message(f1=pool_id, f2=[*known, "new-1"])
        answer = call("ReconcilePools", HOSTS, f1=now_ms, f2=report)
        assert sorted(answer[3]) == sorted(_job_and_run(number)[1].encode() for number in missing)
        assert answer[2] == [b"new-1"]
        assert 3 not in call("ReconcilePools", HOSTS, f1=answer[1][-1], f2=report)
        with pytest.raises(grpc.RpcError, match="expected IDs from"):
            call("ReconcilePools", HOSTS, f1=now_ms, f2=message(f1=pool_id, f2="a", f3="b"))
