"""The assignment of RMs to cores: balanced, with few moves, and equal on all cores with the same entries."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from remuda_replication.members import shares

NAMES = st.sampled_from("abcdefgh")
RMS = st.sets(st.integers(0, 40).map(lambda number: f"rm-{number}"))
MEMBERS = st.sets(NAMES, min_size=1)
HOLDERS = st.dictionaries(st.integers(0, 40).map(lambda number: f"rm-{number}"), NAMES)


@given(RMS, MEMBERS, HOLDERS)
def test_everyone_has_one_leader_and_loads_differ_by_at_most_one(rms, members, holders):
    found = shares(rms, members, holders)
    assert found.keys() == rms
    loads = dict.fromkeys(members, 0) | Counter(found.values())
    assert loads.keys() == members
    assert max(loads.values()) - min(loads.values()) <= 1


@given(RMS, MEMBERS, HOLDERS)
def test_it_does_not_matter_in_which_order_one_came_to_know_it(rms, members, holders):
    backwards = dict(sorted(holders.items(), reverse=True))
    assert shares(sorted(rms), sorted(members), holders) == shares(sorted(rms)[::-1], sorted(members)[::-1], backwards)


@given(RMS, MEMBERS, HOLDERS)
def test_what_has_been_shared_out_stays(rms, members, holders):
    once = shares(rms, members, holders)
    assert shares(rms, members, once) == once


@given(RMS, MEMBERS, NAMES)
def test_a_member_that_comes_gets_its_share_and_nobody_else_anything(rms, members, newcomer):
    before = shares(rms, members - {newcomer}, {})
    after = shares(rms, members | {newcomer}, before)
    assert {after[rm] for rm in before if after[rm] != before[rm]} <= {newcomer}


@given(RMS, MEMBERS, NAMES)
def test_when_a_member_goes_only_what_it_led_moves(rms, members, leaver):
    before = shares(rms, members | {leaver}, {})
    after = shares(rms, members - {leaver}, before)
    assert {before[rm] for rm in after if after[rm] != before[rm]} <= {leaver}


@given(RMS, MEMBERS, st.integers(41, 50).map(lambda number: f"rm-{number}"))
def test_nobody_moves_for_an_rm_that_comes(rms, members, newcomer):
    before = shares(rms, members, {})
    after = shares(rms | {newcomer}, members, before)
    assert {rm for rm in before if after[rm] != before[rm]} == set()


def test_nobody_leads_where_there_is_nobody():
    assert shares({"a"}, set(), {"a": "x"}) == {}
