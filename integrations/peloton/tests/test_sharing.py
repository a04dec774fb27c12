"""Hosts that are shared with a resource manager of si.v1: who may place there, and what pools may hold."""

from __future__ import annotations

from integrations.peloton.tests.world import CAPACITY, World
from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.explain import explanation
from remuda_peloton.rules.hosts import Host, Placement
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Settings
from remuda_peloton.shell.operator_queries import where_to_look
from remuda_peloton.wire import snapshots
from remuda_replication.log import Position

ONE = (10.0, 0.0, 100.0, 100.0)
NAME = "rm-1/default"


def share(world: World, *hosts: Host, epoch: int = 1, capacity: tuple[float, ...] = CAPACITY, **more: object) -> str:
    cpu, gpu, memory, disk = capacity
    known = world.state.shared.get(NAME)
    more = {"takes_over": known is None or known.epoch != epoch, **more}
    command = commands.ShareHosts(
        commands.SharedEngine(NAME, epoch), (cpu, gpu, memory, disk), hosts=hosts, **more  # type: ignore[arg-type]
    )  # fmt: skip
    answer = world.do(command)
    return str(answer.refused or ",".join(answer.foreign))


def sharing() -> World:
    world = World(Settings())
    assert not share(world, Host("n1", ONE), Host("n2", ONE))
    world.do(commands.PutHosts((Host("own", ONE),)))
    return world


def placing(world: World) -> tuple[str, str]:
    """A task that an engine has."""
    world.do(commands.EnqueueGangs("a", ((Task("t", "t-1", (4.0, 0.0, 10.0, 10.0)),),)))
    world.do(commands.Admit())
    assert world.do(commands.DequeueGangs(10))
    return ("t", "t-1")


def place(world: World, host: str, by: commands.SharedEngine | None = None) -> list[str]:
    refused = world.do(commands.SetPlacements((Placement(host, (("t", "t-1"),)),), by=by))
    return [message for _, message in refused]


def test_only_the_engine_of_the_partition_places_there() -> None:
    world = sharing()
    placing(world)
    assert place(world, "n1") == ["n1 is shared with rm-1/default: only the engine of that partition places there"]
    engine = commands.SharedEngine(NAME, 1, 7)
    assert place(world, "own", engine) == ["own is not shared with rm-1/default"]
    assert place(world, "n1", engine) == []
    assert world.state.runs["t"].hostname == "n1" and world.state.shared[NAME].placed == 7


def test_an_engine_that_was_followed_places_nothing() -> None:
    world = sharing()
    placing(world)
    assert not share(world, epoch=2)
    assert place(world, "n1", commands.SharedEngine(NAME, 1, 8)) == ["engine 1 of rm-1/default was followed by 2"]
    assert world.state.shared[NAME].placed == 0
    assert share(world, Host("n3", ONE)) == "engine 1 of rm-1/default was followed by 2"
    assert "n3" not in world.state.known_hosts
    assert place(world, "n1", commands.SharedEngine(NAME, 2, 1)) == []


def test_two_engines_that_begin_at_once_do_not_have_the_same_epoch() -> None:
    """Both have read the epoch before, 1."""
    world = sharing()
    assert not share(world, epoch=2, takes_over=True)
    assert share(world, Host("n3", ONE), epoch=2, takes_over=True) == "engine 2 of rm-1/default has begun already"
    assert "n3" not in world.state.known_hosts
    assert not share(world, Host("n3", ONE), epoch=2)


def test_an_engine_that_has_not_begun_describes_no_hosts() -> None:
    world = sharing()
    assert share(world, Host("n3", ONE), epoch=2, takes_over=False) == "engine 2 of rm-1/default has not begun"
    assert share(World(Settings()), takes_over=False) == "engine 1 of rm-1/default has not begun"


def test_the_capacity_is_at_most_what_the_queue_may_hold() -> None:
    world = sharing()
    assert world.state.capacity == (30.0, 0.0, 300.0, 300.0)
    share(world, capacity=(5.0, 0.0, 1_000.0, 50.0))
    assert world.state.capacity == (15.0, 0.0, 300.0, 150.0)
    share(world, Host("n1", ONE, draining=True), removed=("n2",), capacity=(5.0, 0.0, 1_000.0, 50.0))
    assert world.state.capacity == ONE


def test_hosts_of_a_host_manager_and_shared_ones_are_kept_apart() -> None:
    world = sharing()
    assert share(world, Host("own", ONE), removed=("own",)) == "own"
    world.do(commands.PutHosts((Host("n1", CAPACITY),)))
    world.do(commands.RemoveHosts(("n2",)))
    known = world.state.known_hosts
    assert known["own"].shared_with == "" and known["n1"].capacity == ONE and "n2" in known


def test_no_host_is_reserved_there() -> None:
    world = sharing()
    placing(world)
    refused = world.do(commands.ReserveHosts((commands.Reservation("n1", "t", "t-1"),)))
    assert refused[0][1].startswith("run 't-1' is PLACING")


def test_runs_are_preempted_by_name() -> None:
    world = sharing()
    placing(world)
    assert place(world, "n1", commands.SharedEngine(NAME, 1, 1)) == []
    world.launch()
    world.do(commands.PreemptRuns((("t", "t-1"), ("t", "t-0"), ("u", "u-1")), maintenance=True))
    world.do(commands.PreemptRuns((("t", "t-1"),)))
    assert [(one.run_id, one.reason) for one in world.do(commands.GetPreemptibleTasks(10))] == [
        ("t-1", commands.HOST_MAINTENANCE)
    ]


def test_a_snapshot_has_them() -> None:
    world = sharing()
    placing(world)
    place(world, "n1", commands.SharedEngine(NAME, 1, 3))
    payload = b"".join(snapshots.write("peloton.default", Position(), 0, world.state))
    _, _, restored = snapshots.read("peloton.default", payload)
    check(restored)
    assert restored.shared == world.state.shared == world.replayed().state.shared
    assert restored.known_hosts == world.state.known_hosts


def test_the_explanation_of_a_task_says_where_to_look() -> None:
    world = sharing()
    placing(world)
    found = explanation(world.state, Settings(), "t")
    assert found is not None
    assert where_to_look(world.state, "default", found.tasks[0]) == (
        "if it is to be placed on nodes of rm-1: remuda explain rm-1 @peloton.default.a @peloton.default.t-1"
    )
    place(world, "n1", commands.SharedEngine(NAME, 1, 1))
    placed = explanation(world.state, Settings(), "t")
    assert placed is not None and where_to_look(world.state, "default", placed.tasks[0]) == ""


def test_without_hosts_nothing_is_said_of_the_capacity() -> None:
    core = Core(Settings())
    _, answer = core.handle(commands.ShareHosts(commands.SharedEngine(NAME, 1), CAPACITY, takes_over=True), 1)
    assert not answer.refused and core.state.capacity is None
