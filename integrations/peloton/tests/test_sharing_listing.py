"""What an engine of shared hosts knows from answers with changes is what an answer with everything says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from integrations.peloton.tests.test_sharing import NAME, share
from integrations.peloton.tests.world import CAPACITY, LEAVES, TASKS, World, steps, take
from remuda_peloton import commands
from remuda_peloton.rules.hosts import Host, Placement
from remuda_peloton.settings import Settings
from remuda_peloton.sharing import Listing, Outdated, Wish
from remuda_peloton.state import State
from remuda_peloton.wire import snapshots
from remuda_peloton.wire.host_rpcs import RPCS, host_of
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from remuda_replication.log import Position

HOSTS = tuple(f"host-t{number}" for number in range(TASKS))


class Sharing(World):
    """Gangs are placed on shared hosts, by their engine."""

    def __init__(self) -> None:
        super().__init__(Settings())
        share(self, *(Host(name, CAPACITY, slack_cpu=20.0) for name in HOSTS))

    def place(self, limit: int, succeed: bool) -> None:
        for gang in self.do(commands.DequeueGangs(limit)):
            tasks = tuple((one.task.id, one.task.mesos_id) for one in gang)
            by = commands.SharedEngine(NAME, 1, self.state.shared[NAME].placed + 1)
            placements = (Placement("host-" + tasks[0][0], tasks),) if succeed else ()
            failed = () if succeed else (commands.FailedPlacement(tasks, "no host"),)
            self.do(commands.SetPlacements(placements, failed, by))


def listing() -> Listing:
    return Listing(host_of, lambda run: Wish(run.run_id, run.pool_id, run.hostname))


def bring_up_to_date(known: Listing, state: State) -> None:
    """As the engine does."""
    request = hosts_pb2.ListSharedRequest(name=NAME, since_ms=known.since_ms)
    try:
        known.add(answer(state, request), is_all=not request.since_ms)
    except Outdated:
        known.add(answer(state, hosts_pb2.ListSharedRequest(name=NAME)), is_all=True)


def answer(state: State, request: Any) -> Any:
    question = RPCS["ListShared"].question
    assert question is not None
    return hosts_pb2.ListSharedResponse.FromString(question(state, request).SerializeToString())


def contents(known: Listing) -> dict[str, Any]:
    """Without runs on hosts that no engine needs to know: those that are on none, whatever host they name."""
    return {
        "hosts": known.hosts, "shared": known.shared, "pools": dict(known.pools), "placed": known.placed,
        "wishes": known.wishes, "taken": known.taken, "used": {run.hostname for run in known.placed.values()},
    }  # fmt: skip


def all_of(state: State) -> dict[str, Any]:
    found = listing()
    found.add(answer(state, hosts_pb2.ListSharedRequest(name=NAME)), is_all=True)
    return contents(found)


def restored(state: State) -> State:
    """As another process knows it."""
    payload = b"".join(snapshots.write("peloton.default", Position(), 0, state))
    return snapshots.read("peloton.default", payload)[2]


more = st.one_of(
    steps,
    st.tuples(st.just("look")),
    st.tuples(st.just("host"), st.sampled_from(HOSTS), st.sampled_from(("drain", "back", "remove"))),
    st.tuples(st.just("pool"), st.sampled_from(LEAVES), st.sampled_from((0.5, 1.0))),
    st.tuples(st.just("restart")),
)


@settings(max_examples=200)
@given(st.lists(more, max_size=40))
def test_changes_add_up(played: list[Any]) -> None:
    world, known = Sharing(), listing()
    state = world.state
    for step in played:
        match step:
            case ("look",):
                bring_up_to_date(known, state)
                assert contents(known) == all_of(world.state)
            case ("host", name, "remove"):
                share(world, removed=(name,))
            case ("host", name, what):
                share(world, Host(name, CAPACITY, slack_cpu=20.0, draining=what == "drain"))
            case ("pool", pool_id, limit):
                config = world.state.pools[pool_id].config
                resources = tuple(replace(one, limit=one.reservation + limit) for one in config.resources)
                world.do(commands.UpdatePool(replace(config, resources=resources), force=True))
            case ("restart",):
                state = restored(world.state)
                bring_up_to_date(known, state)
                assert contents(known) == all_of(world.state)
            case _:
                take(world, step)
        state = world.state
    bring_up_to_date(known, state)
    assert contents(known) == all_of(state)


def test_an_answer_lists_what_has_changed_alone() -> None:
    world, known = Sharing(), listing()
    bring_up_to_date(known, world.state)
    world.now_ms += 1_000
    world.enqueue("a", [1], 0.01, (True, False, False), 0)
    world.do(commands.CalculateEntitlements())
    world.do(commands.Admit())
    world.place(1, succeed=True)
    found = answer(world.state, hosts_pb2.ListSharedRequest(name=NAME, since_ms=known.since_ms + 1))
    assert [one.hostname for one in found.hosts] == ["host-t1"] and [one.run_id for one in found.runs] == ["t1-1"]
    assert not found.has_pools and found.count == len(HOSTS)
    before = known.changes
    known.add(found, is_all=False)
    assert known.changes == before + 1 and set(known.placed) == {"t1-1"}
    known.add(found, is_all=False)
    assert known.changes == before + 1, "an answer with nothing new is no change"


def test_an_older_answer_is_not_added() -> None:
    world, known = Sharing(), listing()
    world.now_ms += 1_000
    world.do(commands.CalculateEntitlements())
    bring_up_to_date(known, world.state)
    older = answer(world.state, hosts_pb2.ListSharedRequest(name=NAME))
    older.now_ms -= 1
    with pytest.raises(Outdated):
        known.add(older, is_all=False)
