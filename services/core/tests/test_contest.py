"""What has left a contest is not kept, however seldom somebody looks who is first."""

from __future__ import annotations

import gc
import weakref

from remuda_core.cycle.contest import Contest, Entry


class Runner:
    def __init__(self, speed: int) -> None:
        self.speed = speed
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> tuple[int, ...]:
        return (-self.speed,)


def test_who_has_left_is_forgotten_though_nobody_looks() -> None:
    contest: Contest[Runner] = Contest()
    stays = [Runner(1), Runner(2)]
    gone: weakref.WeakSet[Runner] = weakref.WeakSet()
    for each in stays:
        contest.enter(each)
    for speed in range(1_000):
        passes = Runner(speed)
        contest.enter(passes)
        gone.add(passes)
        contest.leave(passes)
        del passes
    gc.collect()
    assert len(gone) < 100
    assert contest.first() is stays[1]


def test_who_has_left_is_forgotten_though_one_looks_only_while_there_is_one() -> None:
    contest: Contest[Runner] = Contest()
    gone: weakref.WeakSet[Runner] = weakref.WeakSet()
    before = after = Runner(0)
    contest.enter(before)
    for speed in range(1, 1_000):
        after = Runner(speed)
        gone.add(after)
        contest.enter(after)
        contest.leave(before)
        assert contest.first() is after
        before = after
    del after
    gc.collect()
    assert len(gone) < 100


def test_who_was_alone_is_ranked_when_others_come_back() -> None:
    contest: Contest[Runner] = Contest()
    slow, fast = Runner(1), Runner(2)
    for _ in range(3):
        contest.enter(slow)
        contest.enter(fast)
        assert contest.first() is fast
        fast.speed, slow.speed = slow.speed, fast.speed
        contest.touch(fast)
        contest.touch(slow)
        assert contest.first() is slow
        contest.leave(slow)
        assert contest.first() is fast
        slow, fast = fast, slow
        contest.leave(slow)
        slow, fast = Runner(1), Runner(2)
        contest.leave(slow)
        for each in list(contest.members):
            contest.leave(each)
