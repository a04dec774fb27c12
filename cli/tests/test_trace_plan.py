"""The plan of a replay: every event once, in the trace's order, and nothing leaves before it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda.simulated_rm.load.openb import Pod
from remuda.simulated_rm.load.trace import DAY_S, group, qos_of, steps


def pod(name: str, created: float, deleted: float | None) -> Pod:
    return Pod(name, 1000, 1024, 0, (), "LS", created, deleted)


LIVES = st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20)), max_size=30)


@given(LIVES, st.sampled_from([0.0, 3.0, float("inf")]))
def test_every_event_once_and_in_order(lives: list[tuple[int, int | None]], together_s: float) -> None:
    pods = [pod(f"p{n}", at, None if lasts is None else at + lasts) for n, (at, lasts) in enumerate(lives)]
    plan = steps(pods, together_s)
    arrived: list[str] = []
    departed: list[str] = []
    for step in plan:
        for one in step.pods:
            if step.arrival:
                assert one.created <= step.time
                arrived.append(one.name)
            else:
                assert one.name in arrived
                departed.append(one.name)
        times = [one.created if step.arrival else one.deleted or 0.0 for one in step.pods]
        assert times == sorted(times)
        assert times[-1] == step.time
        assert times[-1] - times[0] <= together_s
    assert sorted(arrived) == sorted(one.name for one in pods)
    assert sorted(departed) == sorted(one.name for one in pods if one.deleted is not None)
    assert [step.time for step in plan] == sorted(step.time for step in plan)


def test_at_the_same_second_room_is_made_before_it_is_taken() -> None:
    plan = steps([pod("old", 0, 5), pod("new", 5, 9)])
    assert [(step.arrival, [one.name for one in step.pods]) for step in plan] == [
        (True, ["old"]),
        (False, ["old"]),
        (True, ["new"]),
        (False, ["new"]),
    ]


def test_a_pod_that_comes_and_goes_at_once_comes_first() -> None:
    plan = steps([pod("a", 5, 5)])
    assert [step.arrival for step in plan] == [True, False]


def test_an_application_is_a_quality_of_service_on_a_day() -> None:
    assert group(pod("a", 2 * DAY_S + 1, None)) == "ls-day002"


def test_the_class_of_a_group_is_that_of_its_pods() -> None:
    assert qos_of(group(pod("p", 3 * DAY_S, None))) == "ls"
