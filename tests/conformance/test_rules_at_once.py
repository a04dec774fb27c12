"""Differences that one rule of the reference alone does not explain, and what a user may be booked for."""

from __future__ import annotations

import copy

import pytest

from . import in_process
from .builders import app, ask, asks, node, release, scenario, trace_of
from .case import Case
from .compare import differences
from .kind_cases.preemption import ON, PREEMPTS, WILLING, guaranteed
from .kind_cases.sided import kind_named, queues
from .recording import Recording
from .reference_rules import in_force
from .verdict import DIFFERENT, EXPLAINED, judge


def test_two_rules_of_the_reference_are_played_at_once():
    """The room preempted for `first` is held for it by one rule of ours, and `urgent` preempts for itself alone by the
    other: the answers agree only where both are the reference's."""
    names = ["KeptForPreemptor", "PlacedBeforePreempted"]
    played = scenario(
        node("n1", 9), app("app-1"), asks(ask("app-1", "k1", 3, **WILLING), ask("app-1", "k2", 3, **WILLING)),
        asks(ask("app-1", "k3", 3, **WILLING)), {"schedule": 3}, app("app-2", "root.b"),
        asks(ask("app-2", "first", 3, **PREEMPTS)), {"wait_ms": 20}, {"schedule": 1},
        asks(ask("app-2", "urgent", 5, priority=9, **PREEMPTS)), {"wait_ms": 20}, {"schedule": 4},
        config=queues(guaranteed("q", 1), guaranteed("b", 9), beside=ON),
    )  # fmt: skip
    with in_force([kind_named(name).reference_rules[0] for name in names]):
        trace = copy.deepcopy(trace_of(played))
    verdict = judge(Recording(played, trace), in_process.play)
    assert (verdict.word, verdict.parted_at) == (EXPLAINED, None), verdict.summary()
    assert sorted(verdict.played) == sorted(kind_named(name).name for name in names)


def test_a_second_kind_may_show_only_where_the_rule_of_the_first_is_played():
    """The only node with room is not ready, so nothing is placed by our rules, and nothing shows that `bound` holds up
    all asks behind it in theirs."""
    names = ["NotReadyTakesNothing", "BoundAskHoldsUpNobody"]
    small = [ask("app-1", f"k{number}", 1) for number in range(5)]
    played = scenario(
        node("n2", 4), app("app-1"), asks(ask("app-1", "full", 4, priority=20)), {"schedule": 1},
        node("n1", 20, ready="false"), asks(ask("app-1", "first", 1, priority=10)),
        asks(ask("app-1", "bound", 4, priority=9, tags={"si/requiredNode": "n2"}), *small), {"schedule": 9},
    )  # fmt: skip
    with in_force([kind_named(name).reference_rules[0] for name in names]):
        trace = copy.deepcopy(trace_of(played))
    verdict = judge(Recording(played, trace), in_process.play)
    assert (verdict.word, verdict.parted_at) == (EXPLAINED, None), verdict.summary()
    assert sorted(verdict.played) == sorted(kind_named(name).name for name in names)


LIMITED = "{name: q, limits: [{limit: a, users: [alice], maxresources: {vcore: 9m}}]}"


@pytest.mark.parametrize("who_books", ["theirs", "ours"])
def test_only_theirs_may_book_what_was_released(who_books):
    """All was released at once while an ask is pending: its user has nothing."""
    played = scenario(
        node("n1", 4), app("app-1"), asks(ask("app-1", "k1", 2), ask("app-1", "k2", 9)), {"schedule": 2},
        release("app-1", ""), {"dump": True}, config=queues(LIMITED),
    )  # fmt: skip
    right, wrong = trace_of(played), copy.deepcopy(trace_of(played))
    for dump in (wrong["final"], wrong["steps"][-1]["dump"]):
        [user] = dump["users"]
        user["queues"]["resourceUsage"] = {"vcore": 2}
    ours, theirs = (right, wrong) if who_books == "theirs" else (wrong, right)
    [found, *_] = [each for each in differences(ours, theirs) if each.path[:3] == ("dump", "users", "alice")]
    assert kind_named("UsageIsWhatIsUsed").explains(Case(played, ours, theirs), found) == (who_books == "theirs")


def test_what_is_shown_of_a_step_is_of_the_play_that_is_compared():
    """With the rule of the reference in force: its callbacks, and its dump, not those of the first play."""
    kind = kind_named("NotReadyTakesNothing")
    played = scenario(
        node("n1", 9, ready="false"), app("app-1"), asks(ask("app-1", "k", 1)), {"schedule": 1}, {"dump": True}
    )
    with in_force([kind.reference_rules[0]]):
        trace = copy.deepcopy(trace_of(played))
    [listed] = trace["steps"][-1]["dump"]["partitions"]["[rm:123]default"]["nodes"]
    listed["available"] = {"vcore": 7}
    verdict = judge(Recording(played, trace), in_process.play)
    assert (verdict.word, verdict.played) == (DIFFERENT, [kind.name])
    assert verdict.case is not None
    assert [each["cb"] for each in verdict.case.our_steps[3]["callbacks"]] == ["application", "allocation"]
    [shown] = verdict.case.our_steps[-1]["dump"]["partitions"]["[rm:123]default"]["nodes"]
    assert [each.ours for each in verdict.unexplained if each.step == 4] == [shown["available"]["vcore"]]
