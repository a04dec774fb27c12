"""Each kind of difference on scenarios of its own: answers that it has to explain, and near misses that it must not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from . import in_process
from .builders import amount, app, ask, asks, node, scenario, trace_of
from .case import Case
from .compare import FINAL, Difference, differences, meaningful
from .kind_cases import EXPLAINED, NEAR_MISSES
from .kind_cases.sided import START, kind_named, new, queues, trace_with, verdict_on
from .kinds import KINDS
from .recording import Recording
from .reference_rules import accept_nonsense, in_force
from .verdict import DIFFERENT, judge
from .verdict import EXPLAINED as IS_EXPLAINED

RULED = [(name, case) for name, cases in EXPLAINED.items() for case in cases if case.their_rule]


def of_each(cases):
    listed = [(name, case) for name, several in cases.items() for case in several]
    return pytest.mark.parametrize(("name", "case"), listed, ids=[name for name, _ in listed])


def test_every_kind_has_both_sides():
    names = {type(kind).__name__ for kind in KINDS}
    assert (set(EXPLAINED), set(NEAR_MISSES)) == (names, names)
    assert all(EXPLAINED.values()) and all(NEAR_MISSES.values())


@of_each(EXPLAINED)
def test_explained_where_its_cause_is(name, case):
    verdict = verdict_on(name, case)
    assert verdict.word == IS_EXPLAINED, [str(each) for each in verdict.unexplained] or verdict.error
    assert list(verdict.kinds) == [kind_named(name).name]


@of_each(NEAR_MISSES)
def test_a_near_miss_is_not_explained(name, case):
    verdict = verdict_on(name, case)
    assert verdict.word == DIFFERENT, (verdict.kinds, verdict.error)
    kind = kind_named(name).name
    assert kind not in verdict.kinds or kind in verdict.played  # then it has explained something else


def paths_in(value, above=()):
    """All paths in a value, each with what is there."""
    yield above, value
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from paths_in(item, (*above, key))


def test_a_kind_can_judge_a_difference_at_any_depth():
    """Whole dumps, partitions, users and single fields: what is there on one side only, or empty on the other."""
    limited = "{name: q, limits: [{users: [alice], maxapplications: 1}]}"
    played = scenario(
        *START, asks(ask("app-1", "k", 1)), {"schedule": 1}, {"dump": True}, config=queues(limited, "{name: r}")
    )
    trace = trace_of(played)
    case = Case(played, trace, copy.deepcopy(trace))
    both = [Difference(0, ("registration",), {"ok": True}, {"error": "no"})]
    for path, value in paths_in(meaningful(trace["final"]), ("dump",)):
        pairs: tuple[tuple[Any, Any], ...] = ((value, None), (None, value), (value, {}), ({}, value))
        for sides in pairs:
            both += [Difference(FINAL, path, *sides), Difference(len(played.steps) - 1, path, *sides)]
    assert len(both) > 400
    for kind in KINDS:
        for difference in both:
            assert kind.explains(case, difference) in (True, False)


def test_a_kind_can_look_at_elements_without_names():
    """Empty ones are left out of messages, and the reference takes them."""
    nameless = {"partitionName": "default", "resourceAsk": amount(1), "maxAllocations": 1}
    place = {**nameless, "placeholder": True, "taskGroupName": "t"}
    played = scenario(
        {"node": {"nodes": [{"action": "CREATE", "schedulableResource": amount(9)}]}}, node("n1", 9),
        {"application": {"new": [{"partitionName": "default", "queueName": "root.q", "ugi": {"user": "alice"},
                                  "executionTimeoutMilliSeconds": 1_000}]}},
        asks(nameless, place), asks({**nameless, "applicationID": "app-1"}), app("app-1"), {"schedule": 3},
        {"allocation": {"releases": {"allocationsToRelease": [{}], "allocationAsksToRelease": [{}]}}},
        {"wait_ms": 2_000}, {"dump": True}, {"node": {"nodes": [{"action": "DRAIN_NODE"}]}}, {"dump": True},
    )  # fmt: skip
    ours = trace_of(played)
    with in_force([accept_nonsense]):
        theirs = trace_of(played)
    for case in (Case(played, ours, theirs), Case(played, theirs, ours)):
        for kind in KINDS:
            assert kind.taints_from(case) in {None, *range(len(played.steps))}
            for difference in differences(case.ours, case.theirs):
                assert kind.explains(case, difference) in (True, False)


@pytest.mark.parametrize(("name", "case"), RULED, ids=[name for name, _ in RULED])
def test_where_the_rule_of_the_reference_is_played_all_is_compared(name, case):
    verdict = verdict_on(name, case)
    assert (verdict.parted_at, verdict.played) == (None, [kind_named(name).name])


@pytest.mark.parametrize(("name", "case"), RULED, ids=[name for name, _ in RULED])
def test_the_rule_of_the_reference_explains_nothing_else(name, case):
    """Where it was in force, but something else is different too, that stays different."""

    def and_more(steps):
        new(steps[-1], "other", node_id="elsewhere")

    trace = trace_with(case.played, kind_named(name), and_more)
    verdict = judge(Recording(case.played, copy.deepcopy(trace)), in_process.play)
    assert verdict.word == DIFFERENT
    assert {each.path[0] for each in verdict.unexplained} == {"allocation callback"}
