"""A ranking does not keep members that have left, however seldom the first one is requested."""

from __future__ import annotations

import gc
import weakref
from random import Random
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from remuda_core.check.sizes import measured
from remuda_core.index.ordered import Entry, LazyRanking
from remuda_core.index.trees import PassBudget
from remuda_core.limits import STEPS_PER_RANK


class Runner:
    def __init__(self, speed: int) -> None:
        self.speed = speed
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> tuple[int, ...]:
        return (-self.speed,)


def test_who_has_left_is_forgotten_though_nobody_looks() -> None:
    ranking: LazyRanking[Runner] = LazyRanking()
    stays = [Runner(1), Runner(2)]
    gone: weakref.WeakSet[Runner] = weakref.WeakSet()
    for each in stays:
        ranking.enter(each)
    for speed in range(1_000):
        passes = Runner(speed)
        ranking.enter(passes)
        gone.add(passes)
        ranking.leave(passes)
        del passes
    gc.collect()
    assert len(gone) < 100
    assert ranking.first() is stays[1]


def test_who_has_left_is_forgotten_though_one_looks_only_while_there_is_one() -> None:
    ranking: LazyRanking[Runner] = LazyRanking()
    gone: weakref.WeakSet[Runner] = weakref.WeakSet()
    before = after = Runner(0)
    ranking.enter(before)
    for speed in range(1, 1_000):
        after = Runner(speed)
        gone.add(after)
        ranking.enter(after)
        ranking.leave(before)
        assert ranking.first() is after
        before = after
    del after
    gc.collect()
    assert len(gone) < 100


def test_who_was_alone_is_ranked_when_others_come_back() -> None:
    ranking: LazyRanking[Runner] = LazyRanking()
    slow, fast = Runner(1), Runner(2)
    for _ in range(3):
        ranking.enter(slow)
        ranking.enter(fast)
        assert ranking.first() is fast
        fast.speed, slow.speed = slow.speed, fast.speed
        ranking.touch(fast)
        ranking.touch(slow)
        assert ranking.first() is slow
        ranking.leave(slow)
        assert ranking.first() is fast
        slow, fast = fast, slow
        ranking.leave(slow)
        slow, fast = Runner(1), Runner(2)
        ranking.leave(slow)
        for each in list(ranking.members):
            ranking.leave(each)


class Grower:
    """A rank that grows with the time of its ranking."""

    def __init__(self, number: int, use: int, time: list[int]) -> None:
        self.number, self.use, self.time, self.past = number, use, time, 0
        self.entry: Entry | None = None
        self.dirty = False
        self.ranked = 0

    def rank(self) -> tuple[int, ...]:
        self.ranked += 1
        return self.value()

    def value(self) -> tuple[int, ...]:
        return (self.past + self.use * self.time[0], self.number)


@given(seed=st.integers(0, 10**6))
def test_outdated_ranks_are_bounds(seed: int) -> None:
    """The first is the first by the present ranks, whatever comes, goes, changes and grows between."""
    random, time, budget = Random(seed), [0], PassBudget()
    ranking: LazyRanking[Grower] = LazyRanking(budget)
    members = [Grower(number, random.choice((0, 1, 1, 5)), time) for number in range(random.randint(1, 12))]
    for each in members:
        ranking.enter(each)
    for _ in range(80):
        match random.randrange(4):
            case 0:
                time[0] += random.choice((1, 7))
                ranking.outdate()
            case 1:
                each = random.choice(members)
                each.past += random.randint(0, 20)
                ranking.touch(each)
            case 2:
                each = random.choice(members)
                (ranking.leave if each in ranking.members else ranking.enter)(each)
            case _:
                assert ranking.first() is min(ranking.members, key=Grower.value, default=None)
        if random.random() < 0.1:
            assert ranking.ranks() == {each: each.value() for each in ranking.members}


def test_turns_use_their_entries_again() -> None:
    """So that turns leave the search for cycles nothing to look at, however many there are."""
    ranking: LazyRanking[Grower] = LazyRanking(PassBudget())
    members = [Grower(number, 1, [0]) for number in range(20)]
    for each in members:
        ranking.enter(each)
    random, entries = Random(0), list[int]()
    for turn in range(400):
        if turn == 200:
            entries = sorted(id(each.entry) for each in members)
        first = ranking.first()
        assert first is min(members, key=Grower.value)
        first.past += random.choice((5, 6, 7))
        ranking.touch(first)
    ranking.first()
    assert sorted(id(each.entry) for each in members) == entries


def test_an_entry_counts_once_in_the_sizes_of_a_state() -> None:
    """Whatever it is made of: the bounds of sizes hold for entries that are left behind, too."""
    ranking: LazyRanking[Grower] = LazyRanking(PassBudget())
    members = [Grower(number, 1, [0]) for number in range(20)]
    for turn in range(60):
        ranking.enter(members[turn % 20])
        ranking.first()
    found, _ = measured(cast(Any, ranking), None)
    entries = len(ranking._line) + len(ranking._heap)
    assert entries > 20
    assert found["LazyRanking._line"] + found["LazyRanking._heap"] == entries


def test_only_those_that_come_first_are_ranked_again() -> None:
    time, budget = [0], PassBudget()
    ranking: LazyRanking[Grower] = LazyRanking(budget)
    members = [Grower(number, 1, time) for number in range(100)]
    for each in members:
        each.past = 10 * each.number
        ranking.enter(each)
    assert ranking.first() is members[0]
    left, budget.found = budget.left, False
    time[0] = 25
    ranking.outdate()
    assert ranking.first() is members[0]
    assert sum(each.ranked for each in members) == 100 + 3, "and the two that lie below its present rank"
    assert (left - budget.left, budget.found) == (3 * STEPS_PER_RANK, True)
