"""Reserved hosts: laws for any play, and engines that reserve."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from integrations.peloton.tests.test_engine import Cluster, task
from integrations.peloton.tests.test_whole_gangs import HOSTS, cluster_of, hosts_of_tasks, play
from integrations.peloton.tests.world import steps
from remuda_peloton import commands
from remuda_peloton.facts import PlacementQueued
from remuda_peloton.rules.lifecycle import RESERVED
from remuda_peloton.settings import Settings
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

reservations = st.tuples(st.just("reserve"), st.lists(st.sampled_from(HOSTS), max_size=3))
removals = st.tuples(st.just("remove"), st.sampled_from(HOSTS))
EAGER = Settings(attempts_per_cycle=1, retry_cycles=1, enable_host_reservation=True, reserve_after_failures=True)


@given(st.lists(st.one_of(hosts_of_tasks, reservations, removals, steps), max_size=50))
def test_a_reserved_host_gets_nobody_elses_tasks_and_reservations_end(played: list[Any]) -> None:
    world = cluster_of(EAGER)
    for step in played:
        state, before, logged = world.state, dict(world.state.reserved), len(world.log)
        if step[0] == "reserve":
            waiting = [run.task for run in state.runs.values() if run.state == RESERVED]
            pairs = zip(step[1], waiting, strict=False)
            world.do(commands.ReserveHosts(tuple(commands.Reservation(h, one.id, one.mesos_id) for h, one in pairs)))
        elif step[0] == "remove":
            world.do(commands.RemoveHosts((step[1],)))
        else:
            play(world, step)
        for fact in (fact for _, facts in world.log[logged:] for fact in facts if isinstance(fact, PlacementQueued)):
            reserved = before.get(fact.placement.hostname)
            if reserved is not None and step[0] == "place on":
                # Earlier placements of the request may have placed the task elsewhere.
                alone = fact.placement.tasks == ((reserved.task.id, reserved.task.mesos_id),)
                assert alone or reserved.reserved_host != fact.placement.hostname
        assert len(state.reserved) <= 1  # of three hosts
    world.now_ms += 10_000_000
    world.do(commands.Tick())
    assert not world.state.reserved


def test_an_engine_gets_a_large_task_placed_though_small_ones_keep_coming() -> None:
    """Without a reservation, each that ends makes room for another small one. The engine that reserved is killed."""
    cluster = Cluster(
        hosts=2, attempts_per_cycle=1, retry_cycles=1, enable_host_reservation=True, reserve_after_failures=True,
        reserving_timeout_s=600.0, retry_backoff_s=0.0,
    )  # fmt: skip
    engine, number, reserved = cluster.engine(hold_s=1.0), 10, set[str]()
    cluster.enqueue(*([task(n)] for n in range(1, 5)))
    cluster.turn(engine)
    running = list(cluster.placed())
    cluster.do(commands.NotifyTaskUpdates(tuple(commands.TaskEvent(1, f"{one}-1", "TASK_RUNNING") for one in running)))
    cluster.enqueue([task(0, 2.0)])
    for _ in range(60):
        cluster.turn(engine)
        reserved |= cluster.core.state.reserved.keys()
        for task_id in cluster.placed():
            if task_id == "t0":
                assert reserved
                assert not cluster.core.state.reserved
                return
            cluster.do(commands.NotifyTaskUpdates((commands.TaskEvent(1, f"{task_id}-1", "TASK_RUNNING"),)))
            running.append(task_id)
        ended = running.pop(0)
        cluster.do(commands.NotifyTaskUpdates((commands.TaskEvent(1, f"{ended}-1", "TASK_FINISHED"),)))
        cluster.enqueue([task(number)])
        number += 1
        cluster.now_ms += 1_000
        cluster.do(commands.Tick())
    raise AssertionError(f"t0 is not placed: {cluster.core.state.runs['t0'].state}, reserved {reserved}")


def test_an_engine_reserves_another_host_when_its_own_drains() -> None:
    cluster = Cluster(hosts=20, cpu=2.0, attempts_per_cycle=1, retry_cycles=1, enable_host_reservation=True)
    engine = cluster.engine(hold_s=1.0)
    cluster.enqueue(*([task(n)] for n in range(1, 41)))
    cluster.turn(engine)
    cluster.placed()
    cluster.enqueue([task(0, 2.0)])
    cluster.rpc("DequeueGangs", pb.DequeueGangsRequest(limit=10))
    cluster.now_ms += 11 * 60_000
    cluster.do(commands.Tick())
    cluster.turn(engine)
    ((first, _),) = cluster.core.state.reserved.items()
    drains = log_pb2.Host(hostname=first, capacity=(2, 0, 1_000, 1_000), draining=True)
    cluster.rpc("PutHosts", hosts_pb2.PutHostsRequest(hosts=[drains]))
    for _ in range(2):
        cluster.now_ms += 2_000
        cluster.turn(engine)
    ((second, run),) = cluster.core.state.reserved.items()
    assert second != first and run.task.id == "t0" and run.reason == f"{second} is reserved for it"


def test_a_task_that_needs_nothing_is_placed_where_tasks_may_be() -> None:
    cluster = Cluster(hosts=2)
    for number in (0, 1):
        drains = log_pb2.Host(hostname=f"h{number}", capacity=(2, 0, 1_000, 1_000), draining=True)
        cluster.rpc("PutHosts", hosts_pb2.PutHostsRequest(hosts=[drains]))
    wants = task(0, 0.0)
    wants.desiredHost = "h1"
    cluster.enqueue([wants], [task(1, 0.0)])
    engine = cluster.engine()
    engine._hosts._start = 0.0
    cluster.turn(engine)
    assert len(cluster.placed()) == 2
