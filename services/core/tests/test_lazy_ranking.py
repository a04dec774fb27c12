"""A ranking does not keep members that have left, however seldom the first one is requested."""

from __future__ import annotations

import gc
import weakref

from remuda_core.index.ordered import Entry, LazyRanking


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
