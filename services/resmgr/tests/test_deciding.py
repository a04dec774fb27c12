"""Commits of a leader."""

from __future__ import annotations

from collections import deque

from remuda_resmgr import commands
from remuda_resmgr.core import Core
from remuda_resmgr.shell.machine import ResmgrMachine
from remuda_resmgr.shell.periods import Periods


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
