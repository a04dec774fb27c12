"""When the leader lets time pass, and what it does with nonsense."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.lease import Lease
from remuda_bus.log import LogWriter, Position
from remuda_bus.memory import MemoryBus
from remuda_core import limits
from remuda_core.core import Core
from remuda_core.shell.leader import Leader
from remuda_core.shell.settings import CoreSettings
from remuda_core.shell.snapshots import Snapshots


def leader_at(now_ms: int) -> Leader:
    bus, core = MemoryBus(), Core("rm-1")
    lease, writer = Lease(bus, "core.rm-1", "one"), LogWriter(bus, "rm-1", Position())
    return Leader(bus, core, lease, writer, lambda: now_ms, Snapshots(bus, core, CoreSettings()))


async def test_an_alarm_is_not_made_to_wait_for_the_next_second() -> None:
    leader = leader_at(10_000)
    leader._last_tick_ms = 10_000
    assert leader._next_tick_ms() == 10_000 + limits.TICK_MS
    leader.core.state.timers.set(10_500, "state", "[rm-1]default", "app-1")
    assert leader._next_tick_ms() == 10_500
    assert leader._patience_s() == 0.5


async def test_alarms_that_follow_each_other_closely_are_taken_together() -> None:
    leader = leader_at(10_000)
    leader._last_tick_ms = 10_000
    for at_ms in (10_001, 10_002):
        leader.core.state.timers.set(at_ms, "state", "[rm-1]default", "app-1")
    assert leader._next_tick_ms() == 10_000 + limits.ALARMS_MS


async def test_what_cannot_be_read_is_passed_over() -> None:
    """It would end every core that leads this RM, one after the other."""
    leader = leader_at(10_000)
    commit, _ = await leader._decide([Message(subjects.inbox("rm-1"), b"\xff\xff", seq=7)])
    assert [(one.command, one.inbox_seq, len(one.facts)) for one in commit.decisions] == [("Unreadable", 7, 0)]
    assert commit.inbox_seq == leader.core.state.inbox_seq == 7
