"""The memory of an RM that is not followed any more is free at once, without the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter

from remuda_core import commands
from remuda_core.check import digest
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import built_in
from remuda_core.shell.machine import discard
from remuda_core.state import State
from remuda_core.state.application import Allocation, Application, Node, PendingAsk

PARTITION = "[rm]default"
KINDS = (Allocation, Application, Node, PendingAsk)


def filled() -> Core:
    """A core that has followed."""
    leader, core = Core("rm"), Core("rm")
    asked: list[commands.Command] = [commands.Register("rm", built_in())]
    asked += [commands.UpdateNode(PARTITION, f"n{n}", "CREATE", capacity={"vcore": 10}) for n in range(20)]
    for app in ("a", "b"):
        asked.append(commands.SubmitApplication(PARTITION, app, "root.x", "ann", tags={"namespace": "x"}))
        asked.append(commands.SubmitAsk(Ask(PARTITION, app, "k", {"vcore": 1}, max_allocations=150)))
    core.replay(leader.handle_all((*asked, commands.Schedule(1_000)), 1_000), 1_000)
    return core


def alive() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS))


async def test_what_an_rm_held_is_free_when_it_is_discarded() -> None:
    gc.collect()
    gc.disable()
    try:
        before = alive()
        core = filled()
        gc.collect()
        assert (alive() - before)["Allocation"] == 200
        await discard(core)
        left = alive() - before
        assert not left["Allocation"] and not left["Node"], left
        assert left.total() <= 4, "applications and their queues name each other; there are few"
    finally:
        gc.enable()
    assert digest(core.state) == digest(State("rm"))
