"""The ledger of a log: exact sums, waste, restarts at any commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from remuda_events import limits
from remuda_events.ledger import checkpoints
from remuda_events.ledger.projection import ClosedDay, ClosedHour, Projection
from remuda_operations.ledger import hours
from remuda_operations.ledger.hours import HOUR_MS, Row, RowKey
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import Position

BEGIN_MS = 500_000 * HOUR_MS
PARTITION = "[rm-1]default"
MINUTE = 60_000


def resource(**amounts: int) -> si.Resource:
    return si.Resource(resources={name: si.Quantity(value=amount) for name, amount in amounts.items()})


def at(into_ms: int, *facts: log_pb2.Fact) -> log_pb2.Commit:
    """A commit so long after the begin."""
    return log_pb2.Commit(now_ms=BEGIN_MS + into_ms, decisions=[log_pb2.Decision(command="x", facts=facts)])


def accepted(name: str, queue: str = "root.a", user: str = "alice", gang: int = 0, **tags: str) -> log_pb2.Fact:
    fact = log_pb2.ApplicationAccepted(partition=PARTITION, application_id=name, queue=queue, user=user, tags=tags)
    if gang:
        fact.placeholder_ask.CopyFrom(resource(vcore=gang))
    return log_pb2.Fact(application_accepted=fact)


def allocation(
    application: str, uuid: str, placeholder: bool = False, node: str = "n1", **amounts: int
) -> si.Allocation:
    return si.Allocation(
        applicationID=application, allocationKey=uuid, UUID=uuid, partitionName=PARTITION, nodeID=node,
        placeholder=placeholder, taskGroupName="g" if placeholder else "", resourcePerAlloc=resource(**amounts),
    )  # fmt: skip


def allocated(
    application: str, uuid: str, placeholder: bool = False, question: int = 0, **amounts: int
) -> log_pb2.Fact:
    about = allocation(application, uuid, placeholder, node="n1", **amounts)
    made = log_pb2.Allocated(allocation=about, question=question)
    return log_pb2.Fact(allocated=made)


def released(application: str, uuid: str, why: si.TerminationType.ValueType = si.STOPPED_BY_RM) -> log_pb2.Fact:
    return log_pb2.Fact(allocation_released=log_pb2.AllocationReleased(
        partition=PARTITION, application_id=application, allocation_key=uuid, uuid=uuid, termination_type=why
    ))  # fmt: skip


def node(name: str = "n1", **capacity: int) -> log_pb2.Fact:
    added = log_pb2.NodeAdded(partition=PARTITION, node_id=name, capacity=resource(**capacity))
    return log_pb2.Fact(node_added=added)


def project(commits: Iterable[log_pb2.Commit], *tags: str) -> list[Row]:
    """All rows, the hours added up."""
    sums: dict[RowKey, dict[str, int]] = defaultdict(dict)
    for closed in closed_hours(commits, *tags):
        for key, amounts in closed.rows:
            for name, amount in amounts.items():
                sums[key][name] = sums[key].get(name, 0) + amount
    return [Row(key, amounts) for key, amounts in sorted(sums.items())]


def closed_hours(commits: Iterable[log_pb2.Commit], *tags: str) -> list[ClosedHour]:
    projection = Projection(tags)
    return [closed for commit in commits for closed in projection.apply(commit) if isinstance(closed, ClosedHour)]


def row(kind: str, application: str = "app", queue: str = "root.a", tags: hours.Tags = (), **amounts: int) -> Row:
    return Row(RowKey("default", queue, "alice", tags, application, kind), amounts)


def test_an_allocation_counts_in_each_hour_for_as_long_as_it_runs_there():
    commits = [
        at(30 * MINUTE, accepted("app"), allocated("app", "u1", vcore=4)),
        at(2 * HOUR_MS + 60_000),
        at(2 * HOUR_MS + 120_000, released("app", "u1")),
        at(3 * HOUR_MS),
    ]
    assert closed_hours(commits) == [
        (BEGIN_MS, [row("used", vcore=4 * 30 * MINUTE)]),
        (BEGIN_MS + HOUR_MS, [row("used", vcore=4 * HOUR_MS)]),
        (BEGIN_MS + 2 * HOUR_MS, [row("used", vcore=4 * 120_000)]),
    ]


def test_an_hour_is_closed_by_a_commit_behind_it_and_hours_without_use_are_left_out():
    assert (
        closed_hours(
            [at(0, accepted("app"), allocated("app", "u1", vcore=1)), at(1_000, released("app", "u1")), at(HOUR_MS - 1)]
        )
        == []
    )
    commits = [
        at(0, accepted("app"), allocated("app", "u1", vcore=1)),
        at(1_000, released("app", "u1")),
        at(90 * HOUR_MS),
    ]
    assert closed_hours(commits) == [(BEGIN_MS, [row("used", vcore=1_000)])]


def test_a_clock_that_went_back_stands_still():
    commits = [
        at(10_000, accepted("app"), allocated("app", "u1", vcore=1)),
        at(5_000),
        at(8_000, released("app", "u1")),
        at(HOUR_MS),
    ]
    assert closed_hours(commits) == []


def test_an_hour_that_was_closed_ahead_is_made_up_for_in_the_next_one():
    projection = Projection()
    begun = at(0, accepted("app"), allocated("app", "u1", vcore=1), allocated("app", "u2", vcore=5))
    assert list(projection.apply(begun)) == []
    assert list(projection.close_ahead()) == [(BEGIN_MS, [row("used", vcore=6 * HOUR_MS)])]
    assert list(projection.apply(at(HOUR_MS - 1_000, released("app", "u1"), allocated("app", "u3", vcore=3)))) == []
    [second] = projection.apply(at(2 * HOUR_MS))
    made_up = -1_000 + 3_000
    assert second == (BEGIN_MS + HOUR_MS, [row("used", vcore=5 * HOUR_MS + 3 * HOUR_MS + made_up)])


def test_a_day_is_closed_behind_its_last_hour_with_the_sums_of_its_hours():
    """The begin of these tests is at 8 o'clock."""
    projection = Projection()
    until_eve = 16 * HOUR_MS
    assert hours.day_of(BEGIN_MS + until_eve) == BEGIN_MS + until_eve
    list(projection.apply(at(0, accepted("app"), allocated("app", "u1", vcore=2))))
    found = list(projection.apply(at(until_eve + 1_000, released("app", "u1"))))
    assert [len(one.rows) for one in found] == [1] * 17
    assert found[-1] == ClosedDay(BEGIN_MS - 8 * HOUR_MS, [row("used", vcore=2 * until_eve)])
    assert all(isinstance(one, ClosedHour) for one in found[:-1])
    later = list(projection.apply(at(80 * HOUR_MS)))
    assert later == [
        ClosedHour(BEGIN_MS + until_eve, [row("used", vcore=2_000)]),
        ClosedDay(BEGIN_MS + until_eve, [row("used", vcore=2_000)]),
    ]


def test_a_placeholder_is_of_another_kind_until_it_is_replaced():
    real = log_pb2.PlaceholderReplaced(
        allocation=log_pb2.Allocated(allocation=allocation("app", "u2", vcore=2)), placeholder="u1"
    )
    commits = [
        at(0, accepted("app", gang=2), allocated("app", "u1", placeholder=True, vcore=2)),
        at(1_000, log_pb2.Fact(placeholder_replaced=real)),
        at(3_000, released("app", "u2")),
        at(HOUR_MS),
    ]
    assert project(commits) == [row("gang", vcore=2_000), row("used", vcore=4_000)]


def test_a_move_leaves_the_past_with_the_queue():
    moved = log_pb2.ApplicationMoved(partition=PARTITION, application_id="app", queue="root.b", from_queue="root.a")
    commits = [
        at(0, accepted("app"), allocated("app", "u1", vcore=1)),
        at(1_000, log_pb2.Fact(application_moved=moved)),
        at(3_000, released("app", "u1", si.PREEMPTED_BY_SCHEDULER)),
        at(HOUR_MS),
    ]
    assert project(commits) == [
        row("used", vcore=1_000),
        row("lost", queue="root.b", vcore=3_000),
        row("used", queue="root.b", vcore=2_000),
    ]


def test_what_was_preempted_is_lost_unless_it_was_checkpointed():
    untagged: dict[str, str] = {}
    for tags, lost in ((untagged, [row("lost", vcore=HOUR_MS + 1_000)]), ({"remuda/checkpointed": "true"}, [])):
        commits = [
            at(0, accepted("app", "root.a", "alice", 0, **tags), allocated("app", "u1", vcore=1)),
            at(HOUR_MS + 1_000, released("app", "u1", si.PREEMPTED_BY_SCHEDULER)),
            at(2 * HOUR_MS),
        ]
        assert project(commits) == [*lost, row("used", vcore=HOUR_MS + 1_000)]
        assert [len(closed.rows) for closed in closed_hours(commits)] == [1, 1 + len(lost)]


def test_what_a_failed_gang_had_was_in_vain():
    failing = log_pb2.ApplicationStateChanged(partition=PARTITION, application_id="app", state="Failing")
    commits = [
        at(
            0,
            accepted("app", gang=2),
            allocated("app", "u1", placeholder=True, vcore=2),
            allocated("app", "u2", vcore=1),
        ),
        at(1_000, released("app", "u1", si.TIMEOUT), log_pb2.Fact(application_state_changed=failing)),
        at(2_000, released("app", "u2")),
        at(HOUR_MS),
    ]
    assert project(commits) == [row("failed", vcore=4_000), row("gang", vcore=2_000), row("used", vcore=2_000)]


def test_what_is_free_on_a_reserved_node_is_kept():
    reserved = log_pb2.NodeReserved(
        partition=PARTITION,
        application_id="app",
        allocation_key="k",
        node_id="n1",
        resource=resource(vcore=6, memory=1),
    )
    unreserved = log_pb2.NodeUnreserved(partition=PARTITION, application_id="app", allocation_key="k", node_id="n1")
    commits = [
        at(0, node(vcore=8), accepted("app"), accepted("b"), allocated("b", "u1", vcore=4)),
        at(1_000, log_pb2.Fact(node_reserved=reserved)),
        at(3_000, released("b", "u1")),
        at(4_000, log_pb2.Fact(node_unreserved=unreserved), allocated("app", "u2", vcore=6)),
        at(HOUR_MS),
    ]
    assert row("kept", vcore=2_000 * 4 + 1_000 * 6) in project(commits)


def reserved_for(application: str, **need: int) -> log_pb2.Fact:
    made = log_pb2.NodeReserved(partition=PARTITION, application_id=application, allocation_key="k", node_id="n1")
    made.resource.CopyFrom(resource(**need))
    return log_pb2.Fact(node_reserved=made)


def test_after_a_move_what_is_kept_is_of_the_new_queue():
    moved = log_pb2.ApplicationMoved(partition=PARTITION, application_id="app", queue="root.b", from_queue="root.a")
    commits = [
        at(0, node(vcore=8), accepted("app"), reserved_for("app", vcore=6)),
        at(1_000, log_pb2.Fact(application_moved=moved)),
        at(3_000, log_pb2.Fact(node_removed=log_pb2.NodeRemoved(partition=PARTITION, node_id="n1"))),
        at(HOUR_MS),
    ]
    assert project(commits) == [row("kept", vcore=6_000), row("kept", queue="root.b", vcore=12_000)]


def test_an_allocation_that_times_out_has_not_failed():
    commits = [
        at(0, accepted("app"), allocated("app", "u1", vcore=2)),
        at(1_000, released("app", "u1", si.TIMEOUT)),
        at(HOUR_MS),
    ]
    assert project(commits) == [row("used", vcore=2_000)]


def test_room_that_is_held_by_a_question_is_used():
    asked = log_pb2.PredicateAsked(
        partition=PARTITION,
        application_id="app",
        allocation_key="k",
        node_id="n1",
        question=7,
        resource=resource(vcore=3),
    )
    commits = [
        at(0, accepted("app"), log_pb2.Fact(predicate_asked=asked)),
        at(1_000, allocated("app", "u1", question=7, vcore=3)),
        at(2_000, released("app", "u1")),
        at(HOUR_MS),
    ]
    assert project(commits) == [row("used", vcore=6_000)]


def test_what_is_not_reported_meanwhile_is_not_used():
    register = log_pb2.Fact(rm_registered=log_pb2.RmRegistered(rm_id="rm-1", resync="report"))
    recovered = log_pb2.Fact(
        allocation_recovered=log_pb2.AllocationRecovered(allocation=allocation("app", "u1", vcore=2))
    )
    commits = [
        at(0, accepted("app"), allocated("app", "u1", vcore=2), allocated("app", "u2", vcore=1)),
        at(1_000, register),
        at(5_000, accepted("app"), recovered),
        at(HOUR_MS),
    ]
    assert project(commits) == [
        row("unreported", vcore=8_000),
        row("used", vcore=3_000 + 2 * (HOUR_MS - 5_000)),
    ]


def test_what_is_reported_after_more_than_a_day_is_not_told_as_unreported():
    register = log_pb2.Fact(rm_registered=log_pb2.RmRegistered(rm_id="rm-1", resync="report"))
    recovered = log_pb2.Fact(
        allocation_recovered=log_pb2.AllocationRecovered(allocation=allocation("app", "u1", vcore=2))
    )
    begun = at(0, accepted("app"), allocated("app", "u1", vcore=2))
    commits = [begun, at(1_000, register), at(30 * HOUR_MS, accepted("app"), recovered), at(31 * HOUR_MS)]
    assert project(commits) == [row("used", vcore=2_000 + 2 * HOUR_MS)]


def test_a_replay_ends_nothing_and_a_deregistration_or_a_removal_all():
    replayed = log_pb2.RmRegistered(rm_id="rm-1", resync="replay")
    stopped = log_pb2.RmStopped(deregistered=True)
    removed = log_pb2.ApplicationRemoved(partition=PARTITION, application_id="app")
    for fact, lasted_ms in (
        (log_pb2.Fact(rm_registered=replayed), HOUR_MS), (log_pb2.Fact(rm_stopped=log_pb2.RmStopped()), HOUR_MS),
        (log_pb2.Fact(rm_stopped=stopped), 1_000), (log_pb2.Fact(application_removed=removed), 1_000),
    ):  # fmt: skip
        commits = [at(0, accepted("app"), allocated("app", "u1", vcore=2)), at(1_000, fact), at(HOUR_MS)]
        assert project(commits) == [row("used", vcore=2 * lasted_ms)]


def test_tags_of_an_ask_count_before_those_of_its_application():
    checkpointed = "remuda/checkpointed"
    for of_application, of_ask, lost in (("true", "", 0), ("true", "no", 1_000), ("", "true", 0), ("false", "", 1_000)):
        made = allocated("app", "u1", vcore=1)
        tags = {"team": "t", **({checkpointed: of_ask} if of_ask else {})}
        made.allocated.allocation.allocationTags.update(tags)
        given = {checkpointed: of_application} if of_application else {}
        commits = [
            at(0, accepted("app", "root.a", "alice", 0, team="of all", project="x", **given), made),
            at(1_000, released("app", "u1", si.PREEMPTED_BY_SCHEDULER)),
            at(HOUR_MS),
        ]
        listed = (("project", "x"), ("team", "t"))
        wasted = [row("lost", tags=listed, vcore=lost)] if lost else []
        assert project(commits, "team", "project") == [*wasted, row("used", tags=listed, vcore=1_000)]


def test_a_checkpoint_in_between_changes_no_row():
    """Of what is lost, failed, kept and not reported, too, and of the day."""
    register = log_pb2.Fact(rm_registered=log_pb2.RmRegistered(rm_id="rm-1", resync="report"))
    recovered = log_pb2.Fact(
        allocation_recovered=log_pb2.AllocationRecovered(allocation=allocation("app", "u1", vcore=2))
    )
    failing = log_pb2.ApplicationStateChanged(partition=PARTITION, application_id="gang", state="Failing")
    placeholder = allocated("gang", "u2", placeholder=True, vcore=1)
    commits = [
        at(0, node(vcore=8), accepted("app"), accepted("gang", gang=1), allocated("app", "u0", vcore=1), placeholder),
        at(1_000, log_pb2.Fact(application_state_changed=failing), reserved_for("app", vcore=7)),
        at(HOUR_MS + 1_000, released("app", "u0", si.PREEMPTED_BY_SCHEDULER), released("gang", "u2")),
        at(HOUR_MS + 2_000, allocated("app", "u1", vcore=2)),
        at(HOUR_MS + 3_000, register),
        at(HOUR_MS + 5_000, accepted("app"), recovered),
        at(2 * HOUR_MS),
        at(16 * HOUR_MS),
    ]
    always = Projection()
    straight = [closed for commit in commits for closed in always.apply(commit)]
    assert isinstance(straight[-1], ClosedDay)
    kinds = {key.kind for _, rows in straight for key, _ in rows}
    assert kinds == {"used", "gang", "lost", "failed", "kept", "unreported"}
    for place in range(len(commits)):
        first = Projection()
        found: list[ClosedHour | ClosedDay] = []
        for commit in commits[:place]:
            found += first.apply(commit)
        second, _ = checkpoints.decode(checkpoints.encode(first, Position(1, b"")))
        for commit in commits[place:]:
            found += second.apply(commit)
        assert [(one[0], sorted(one.rows)) for one in found] == [(one[0], sorted(one.rows)) for one in straight]


def test_rows_are_told_apart_by_the_listed_tags():
    commits = [
        at(0, accepted("app", project="x", team="t", other="o"), allocated("app", "u1", vcore=1)),
        at(HOUR_MS),
    ]
    assert project(commits, "team", "project", "absent") == [
        row("used", tags=(("project", "x"), ("team", "t")), vcore=HOUR_MS)
    ]


def test_too_many_applications_are_merged_and_sums_stay_exact(monkeypatch):
    monkeypatch.setattr(limits, "LEDGER_ROWS", 5)
    begin = [at(0, *(accepted(f"a{n}", queue=f"root.{n}") for n in range(20)))]
    begin += [at(n, allocated(f"a{n}", f"u{n}", vcore=1)) for n in range(20)]
    rows = closed_hours([*begin, at(HOUR_MS)])[0].rows
    assert len(rows) == 5 + 5 + 1
    assert sum(amounts["vcore"] for _, amounts in rows) == sum(HOUR_MS - n for n in range(20))
    assert any(key.queue == "others" for key, _ in rows)


# Hours as messages

names = st.text("abc.-", max_size=5)
some_tags = st.lists(st.tuples(names, names), max_size=2, unique_by=lambda tag: tag[0])
keys = st.builds(
    RowKey, names, names, names, some_tags.map(lambda tags: tuple(sorted(tags))), names, st.sampled_from(hours.KINDS)
)  # fmt: skip
amounts = st.dictionaries(st.sampled_from(("vcore", "memory")), st.integers(1, 2**90), min_size=1)


@given(st.dictionaries(keys, amounts, max_size=30), st.randoms())
def test_an_hour_is_the_same_message_in_any_order_and_is_read_back(rows, random):
    listed = [Row(key, found) for key, found in rows.items()]
    shuffled = list(listed)
    random.shuffle(shuffled)
    payloads = hours.encode(BEGIN_MS, listed)
    assert payloads == hours.encode(BEGIN_MS, shuffled)
    parts = [hours.decode(payload) for payload in payloads]
    assert sorted(found for part in parts for found in hours.rows_of(part)) == sorted(listed)
    totals: dict[str, int] = defaultdict(int)
    for part in parts:
        for group in part.groups:
            for _, sums in group.totals():
                for name, amount in sums.items():
                    totals[name] += amount
    assert totals == {name: sum(each.amounts.get(name, 0) for each in listed) for name in totals}


def test_a_large_hour_has_several_parts_that_a_server_takes():
    rows = [
        Row(RowKey("default", "root.a", f"u{n % 7}", (), f"{n:0200}", "used"), {"vcore": n + 1}) for n in range(3_000)
    ]
    payloads = hours.encode(BEGIN_MS, rows)
    parts = [hours.decode(payload) for payload in payloads]
    assert [(part.part, part.parts) for part in parts] == [(n, len(parts)) for n in range(len(parts))]
    assert len(parts) > 3
    assert sorted(found for part in parts for found in hours.rows_of(part)) == sorted(rows)
