"""Commits of a leader."""

from __future__ import annotations

from collections import deque

import pytest

from remuda_bus.bus import Message
from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.settings import Periods
from remuda_peloton.shell.deciding import COMMANDS, UNREADABLE, Deciding
from remuda_peloton.shell.machine import ResmgrMachine
from remuda_peloton.wire.rpcs import Rpc
from remuda_proto.remuda.resmgr.v1 import inbox_pb2


async def test_time_without_a_commit_changes_nothing() -> None:
    """Followers do not know of it, and their state equals the leader's."""
    core, now_ms = Core(), 1
    core.handle(commands.SetCapacity((1.0, 1.0, 1.0, 1.0)), now_ms)
    machine = ResmgrMachine("peloton.test", core, Periods())
    deciding, before = machine.deciding(lambda: now_ms), machine.digest()
    now_ms += 3_600_000
    commit, _ = await deciding.commit(deque(), 1)
    assert not commit.decisions
    assert machine.digest() == before


def deciding() -> Deciding:
    found = ResmgrMachine("peloton.test", Core(), Periods()).deciding(lambda: 1)
    assert isinstance(found, Deciding)
    return found


def asked(rpc: str, request: bytes = b"") -> deque[Message]:
    payload = inbox_pb2.Command(rpc=rpc, request=request, correlation_id="c").SerializeToString()
    return deque([Message("remuda.inbox.peloton.test", payload, {}, seq=7)])


async def test_a_command_of_another_version_is_skipped() -> None:
    for messages in (asked("NoSuchRpc"), asked("KillTasks", b"\xff"), deque([Message("x", b"\xff", {}, seq=7)])):
        commit, _ = await deciding().commit(messages, 1)
        assert [one.command for one in commit.decisions if one.inbox_seq] == [UNREADABLE]


async def test_an_error_of_ours_is_no_unreadable_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a fault: the process ends, and if the message does it again, the resource manager is halted."""

    def wrong(_: object) -> commands.Command:
        raise KeyError("task-1")

    rpc = COMMANDS["KillTasks"]
    monkeypatch.setitem(COMMANDS, "KillTasks", Rpc(rpc.request, wrong, rpc.answer))
    with pytest.raises(KeyError, match="task-1"):
        await deciding().commit(asked("KillTasks"), 1)
