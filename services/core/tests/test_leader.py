"""How commits are decided: when time passes, what happens to nonsense, and how much is done at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_core import commands, limits
from remuda_core.core import Core
from remuda_core.settings import built_in
from remuda_core.shell.deciding import Deciding
from remuda_core.state import Timers
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2

PARTITION = "[rm-1]default"


def deciding_at(now_ms: int) -> Deciding:
    return Deciding(Core("rm-1"), lambda: now_ms)


async def decide(deciding: Deciding, messages: Iterable[Message]) -> log_pb2.Commit:
    return (await deciding.commit(deque(messages), 1))[0]


def message(command: inbox_pb2.Command, seq: int) -> Message:
    return Message(subjects.inbox("rm-1"), command.SerializeToString(), seq=seq)


def registered() -> Core:
    core = Core("rm-1")
    core.handle(commands.Register("rm-1", built_in()), 10_000)
    core.handle(commands.SubmitApplication(PARTITION, "app-1", "root.a", "ann", tags={"namespace": "a"}), 10_000)
    return core


def asks(count: int, first: int = 0) -> inbox_pb2.Command:
    command = inbox_pb2.Command()
    for number in range(first, first + count):
        ask = command.allocation.asks.add(
            applicationID="app-1", allocationKey=f"k{number}", partitionName=PARTITION, maxAllocations=1
        )
        ask.resourceAsk.resources["vcore"].value = 1
    return command


async def test_a_timer_is_not_made_to_wait_for_the_next_second() -> None:
    deciding = deciding_at(10_000)
    await decide(deciding, [])
    deciding._core.state.timers.set(10_500, "state", PARTITION, "app-1")
    assert deciding.idle_s() == 0.5


async def test_timers_that_follow_each_other_closely_are_taken_together() -> None:
    deciding = deciding_at(10_000)
    for at_ms in (10_000, 10_001, 10_002):
        deciding._core.state.timers.set(at_ms, "state", PARTITION, "app-1")
    await decide(deciding, [])
    assert deciding.idle_s() == limits.TIMERS_MS / 1_000


async def test_without_work_it_waits_for_its_inbox_alone() -> None:
    deciding = Deciding(registered(), lambda: 10_000)
    await decide(deciding, [])
    assert deciding.idle_s() is None
    remove = inbox_pb2.Command()
    remove.application.remove.add(applicationID="app-1", partitionName=PARTITION)
    await decide(deciding, [message(asks(1), 1), message(remove, 2)])
    deciding._core.state.timers = Timers()
    assert deciding.idle_s() == limits.CLEAN_QUEUES_MS / 1_000, "queues may have become superfluous"


async def test_while_an_ask_waits_time_passes_every_second() -> None:
    deciding = Deciding(registered(), lambda: 10_000)
    await decide(deciding, [message(asks(1), 1)])
    await decide(deciding, [])
    assert deciding.idle_s() == limits.TICK_MS / 1_000


async def test_what_cannot_be_read_is_passed_over() -> None:
    """It would end every core that leads this RM, one after the other."""
    deciding = deciding_at(10_000)
    commit = await decide(deciding, [Message(subjects.inbox("rm-1"), b"\xff\xff", seq=7)])
    assert [(one.command, one.inbox_seq, len(one.facts)) for one in commit.decisions] == [("Unreadable", 7, 0)]
    assert commit.inbox_seq == deciding._core.state.inbox_seq == 7


async def test_others_go_on_while_a_large_message_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.machine.TURN_S", 0.0)
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(another())
    commit = await decide(Deciding(registered(), lambda: 10_000), [message(asks(2_000), 1)])
    other.cancel()
    assert sum(fact.HasField("ask_accepted") for fact in commit.decisions[0].facts) == 2_000
    assert turns >= 2_000


async def test_a_commit_is_bounded_by_facts_and_the_rest_is_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_core.shell.deciding.FACTS_PER_COMMIT", 100)
    deciding = Deciding(registered(), lambda: 10_000)
    messages = deque(message(asks(60, first=60 * seq), seq) for seq in range(1, 6))
    taken = []
    while messages:
        commit, _ = await deciding.commit(messages, 1)
        taken.append(commit.inbox_seq)
    assert taken == [2, 4, 5]


async def test_a_commit_is_bounded_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_core.shell.deciding.COMMIT_S", 0.0)
    messages = deque(message(asks(1, first=seq), seq) for seq in range(1, 4))
    commit, _ = await Deciding(registered(), lambda: 10_000).commit(messages, 1)
    assert (commit.inbox_seq, len(messages)) == (1, 2)
