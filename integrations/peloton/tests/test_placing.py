"""Placing: laws for any hosts and gangs, and which host it is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from remuda_peloton.placing import (
    ALL,
    ANY,
    EQUAL,
    GREATER,
    LESS,
    NONE,
    SPREAD_JOB,
    Combined,
    Hosts,
    HostView,
    LabelConstraint,
    Placed,
    RoomTree,
    Wanted,
    give_back,
    label_count,
    place_gang,
    satisfied,
)
from remuda_peloton.rules.hosts import Host, HostLabel, Room, covers, less, need
from remuda_peloton.rules.task import Task

PORTS = (31_000, 31_003)


def host(name: str, cpu: float = 4.0, rack: str = "", draining: bool = False) -> Host:
    labels = (HostLabel("rack", rack),) if rack else ()
    return Host(name, (cpu, 1.0, 100.0, 100.0), 1.0, "shared", draining, labels, *PORTS)


def hosts_of(*hosts: Host) -> Hosts:
    found = Hosts()
    for one in hosts:
        found.put(HostView(one, one.room))
    return found


def task(name: str, cpu: float = 1.0, **more: object) -> Task:
    return Task(name, f"{name}-1", (cpu, 0.0, 10.0, 1.0), **more)  # type: ignore[arg-type]


def names(placed: list[Placed]) -> list[str]:
    return [one.hostname for one in placed]


label_constraints = st.builds(
    LabelConstraint,
    st.sampled_from((("rack", "a"), ("rack", "b"), ("host_pool", "shared"), ("hostname", "h1"), ("app", "x"))),
    st.sampled_from((LESS, EQUAL, GREATER)),
    st.integers(0, 2),
    st.booleans(),
)
constraints = st.recursive(
    label_constraints,
    lambda inner: st.builds(Combined, st.sampled_from((ALL, ANY)), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
tasks = st.builds(
    lambda cpu, revocable, ports, strategy, desired, job: task(
        "", cpu, revocable=revocable, num_ports=ports, placement_strategy=strategy, desired_host=desired, job_id=job
    ),
    st.sampled_from((0.0, 0.3, 1.0, 2.5)), st.booleans(), st.integers(0, 2), st.integers(0, 2),
    st.sampled_from(("", "h2")), st.sampled_from(("j1", "j2")),
)  # fmt: skip
wanted_tasks = st.builds(Wanted, tasks, st.none() | constraints, st.sampled_from(((), (("app", "x"),))))
some_hosts = st.lists(
    st.tuples(st.sampled_from((0.0, 1.0, 4.0)), st.sampled_from(("", "a", "b")), st.booleans()), max_size=7
)
gangs_of_tasks = st.lists(st.lists(wanted_tasks, min_size=1, max_size=3), max_size=12)


@given(some_hosts, gangs_of_tasks, st.floats(0, 0.99))
def test_no_host_is_above_its_capacity_gangs_are_whole_and_constraints_hold(
    described: list[tuple[float, str, bool]], gangs: list[list[Wanted]], start: float
) -> None:
    hosts = Hosts(start)
    for number, (cpu, rack, draining) in enumerate(described):
        made = host(f"h{number}", cpu, rack, draining)
        hosts.put(HostView(made, made.room))
    rooms: dict[str, Room] = {name: view.host.room for name, view in hosts.by_name.items()}
    ports: dict[str, set[int]] = {name: set() for name in rooms}
    app: Counter[str] = Counter()
    for gang in gangs:
        placed, reason = place_gang(hosts, gang)
        assert len(placed) in (0, len(gang)) and bool(reason) == (not placed)
        for one in placed:
            view = hosts.by_name[one.hostname]
            assert not view.host.draining
            rooms[one.hostname] = less(rooms[one.hostname], need(one.wanted.task))
            assert len(one.ports) == one.wanted.task.num_ports and not ports[one.hostname] & set(one.ports)
            assert all(PORTS[0] <= port <= PORTS[1] for port in one.ports)
            ports[one.hostname].update(one.ports)
            if one.wanted.constraint is not None:
                on_host = app[one.hostname]
                assert satisfied(
                    one.wanted.constraint,
                    lambda label, view=view: label_count(view, label),  # type: ignore[misc]
                    lambda label, on_host=on_host: on_host if label == ("app", "x") else 0,  # type: ignore[misc]
                )
            app[one.hostname] += len(one.wanted.labels)
    for name, room in rooms.items():
        assert all(amount > -0.01 for amount in room), (name, room)
        assert all(abs(a - b) < 1e-6 for a, b in zip(room, hosts.by_name[name].room, strict=True))


@given(some_hosts, gangs_of_tasks)
def test_a_placement_that_is_given_back_leaves_no_trace(
    described: list[tuple[float, str, bool]], gangs: list[list[Wanted]]
) -> None:
    hosts = hosts_of(*(host(f"h{number}", *rest) for number, rest in enumerate(described)))
    for gang in gangs:
        first, why = place_gang(hosts, gang)
        for one in first:
            give_back(hosts, one)
        second, why_again = place_gang(hosts, gang)
        assert (first, why) == (second, why_again)


amounts = st.tuples(*(st.integers(0, 3).map(float) for _ in range(5)))


@given(
    st.lists(amounts, max_size=20), st.lists(st.tuples(st.integers(0, 19), amounts), max_size=10), amounts,
    st.integers(0, 19),
)  # fmt: skip
def test_the_tree_finds_what_a_scan_finds(
    rooms: list[Room], changes: list[tuple[int, Room]], needed: Room, start: int
) -> None:
    tree, start = RoomTree(rooms), min(start, max(0, len(rooms) - 1))
    for place, room in changes:
        if place < len(rooms):
            rooms[place] = room
            tree.put(place, room)
    order = [*range(start, len(rooms)), *range(start)]
    expected = next((place for place in order if covers(rooms[place], needed)), None)
    assert tree.next(needed, start, lambda _: True) == expected
    assert NONE is tree.most or tree.most == tuple(map(max, zip(*rooms, strict=True)))


def test_tasks_are_packed_unless_their_job_is_to_be_spread() -> None:
    packed, _ = place_gang(hosts_of(*(host(f"h{n}") for n in range(3))), [Wanted(task(f"t{n}")) for n in range(5)])
    assert names(packed) == ["h0"] * 4 + ["h1"]
    spread = [Wanted(task(f"t{n}", job_id="j", placement_strategy=SPREAD_JOB)) for n in range(7)]
    placed, _ = place_gang(hosts_of(*(host(f"h{n}") for n in range(3))), spread)
    assert sorted(Counter(names(placed)).values()) == [2, 2, 3]


def test_a_desired_host_goes_first_if_the_task_fits_there() -> None:
    hosts = hosts_of(host("h0"), host("h1"), host("h2", draining=True))
    wanted = [Wanted(task("a", 3.0, desired_host="h1")), Wanted(task("b", 3.0, desired_host="h1"))]
    assert names(place_gang(hosts, wanted)[0]) == ["h1", "h0"]
    assert names(place_gang(hosts, [Wanted(task("c", desired_host="h2"))])[0]) == ["h0"]


def test_the_reason_says_what_is_missing() -> None:
    hosts = hosts_of(host("h0", 2.0), host("h1", 4.0, "a"))
    assert place_gang(Hosts(), [Wanted(task("a"))])[1] == "there are no hosts"
    assert place_gang(hosts, [Wanted(task("a", 8.0))])[1] == "none of 2 hosts has 8 cpu (most free: 4)"
    rack = LabelConstraint(("rack", "z"), EQUAL, 1)
    assert place_gang(hosts, [Wanted(task("a"), rack)])[1] == "none of 2 hosts satisfies the constraint"
    assert "the ports" in place_gang(hosts, [Wanted(task("a", num_ports=9))])[1]
    assert "slack cpu" in place_gang(hosts, [Wanted(task("a", 2.0, revocable=True))])[1]


def test_a_host_that_goes_or_changes_its_labels_is_seen() -> None:
    hosts = hosts_of(host("h0"), host("h1"))
    rack = Wanted(task("a"), LabelConstraint(("rack", "a"), EQUAL, 1))
    assert not place_gang(hosts, [rack])[0]
    changed = host("h1", rack="a")
    hosts.put(HostView(changed, changed.room))
    assert names(place_gang(hosts, [rack])[0]) == ["h1"]
    hosts.keep_only({"h0"})
    assert not place_gang(hosts, [rack])[0]
