"""Each kind of difference on scenarios of its own: answers that it has to explain, and near misses that it must not."""

from __future__ import annotations

import copy

import pytest

from . import in_process
from .kind_cases import EXPLAINED, NEAR_MISSES
from .kind_cases.sided import kind_named, new, trace_with, verdict_on
from .kinds import KINDS
from .recording import Recording
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
