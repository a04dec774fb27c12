"""Timers: returned in order, once, and dropped when they have no effect any more."""

from __future__ import annotations

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Ask
from remuda_core.limits import LEFTOVERS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Timer, Timers

PARTITION = "[rm-1]default"
DAY_MS = 86_400_000


def timer(at_ms: int, application_id: str) -> Timer:
    return Timer(at_ms, "state", PARTITION, application_id, "")


def test_timers_that_were_cancelled_take_no_room_when_the_others_are_over() -> None:
    """No further one is cancelled, which would make room."""
    timers = Timers()
    for at_ms in range(1_000):
        timers.put(timer(at_ms, "a"))
    for at_ms in range(600, 1_000):
        timers.cancel(timer(at_ms, "a"))
    timers.take_out(598)
    assert list(timers) == [timer(599, "a")]
    assert len(timers._times) <= 2 + LEFTOVERS


def test_timers_come_by_time_and_name_whenever_they_were_set() -> None:
    timers = Timers()
    for at_ms, application_id in ((30, "a"), (10, "b"), (10, "a"), (20, "a")):
        timers.set(at_ms, "state", PARTITION, application_id)
    assert timers.next_ms() == 10
    assert list(timers.due(20)) == [timer(10, "a"), timer(10, "b"), timer(20, "a")]
    assert timers.next_ms() == 10, "they stay until the fact that time has passed"
    timers.take_out(20)
    assert timers.next_ms() == 30
    assert list(timers.due(29)) == []


def test_one_set_while_others_are_given_out_is_not_lost() -> None:
    timers = Timers()
    timers.set(10, "state", PARTITION, "a")
    given = []
    for each in timers.due(10):
        given.append(each)
        if len(given) == 1:
            timers.set(10, "state", PARTITION, "b")
    assert given == [timer(10, "a"), timer(10, "b")]
    timers.take_out(10)
    assert timers.next_ms() is None


def test_a_cancelled_timer_is_due_never() -> None:
    timers = Timers()
    timers.set(10, "state", PARTITION, "a")
    timers.cancel(timer(10, "a"))
    timers.cancel(timer(10, "a"))
    assert timers.next_ms() is None and list(timers) == []
    timers.set(10, "state", PARTITION, "a")
    assert list(timers.due(10)) == [timer(10, "a")]


def test_what_has_gone_leaves_no_timer_behind_for_days() -> None:
    core = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    for command in (
        commands.Register("rm-1", Configuration("1", (PartitionSettings("default", root),))),
        commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10}),
        commands.SubmitApplication(PARTITION, "app-1", "root.a", "alice"),
    ):
        core.handle(command, 0)
    for i in range(100):
        core.handle(commands.SubmitAsk(Ask(PARTITION, "app-1", f"k{i}", {"vcore": 1}, execution_timeout_ms=DAY_MS)), i)
        core.handle(commands.Schedule(10), i)
        (uuid,) = core.state.partitions[PARTITION].allocations
        core.handle(commands.ReleaseAllocation(PARTITION, "app-1", uuid, STOPPED_BY_RM, ""), i)
    assert [each for each in core.state.timers if each.kind == "execution"] == []
