"""The memory of a core depends on its live objects, not on removed ones."""

from __future__ import annotations

import gc
from collections import Counter

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, Timing

PARTITION = "[rm-1]default"
DAY_MS = 86_400_000
DAYS_WORK = 300


def test_days_of_work_leave_nothing_behind() -> None:
    core = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"), QueueSettings("b")))
    timing = Timing(ended_ms=5_000, completing_ms=1_000, starting_ms=5_000)
    core.handle(commands.Register("rm-1", Configuration("1", (PartitionSettings("default", root),), timing=timing)), 0)
    for i in range(5):
        core.handle(commands.UpdateNode(PARTITION, f"n{i}", "CREATE", capacity={"vcore": 1_000, "memory": 10_000}), 0)
    early = late = Counter[str]()
    for i in range(DAYS_WORK):
        one_application(core, i)
        if i == DAYS_WORK // 3:
            early = objects()
        late = objects() if i == DAYS_WORK - 1 else late
    # There may be a thousand node groups before those without nodes are forgotten, and branches to hold them.
    del late["NodeGroup"], late["Branch"]
    more = {name: count - early[name] for name, count in late.items() if count > early[name] + 10}
    assert not more, f"grown: {more}"
    assert len(core.state.timers._times) < 100


def one_application(core: Core, i: int) -> None:
    """It asks for new sizes, is allocated, and ends."""
    now_ms, app_id = 1_000 * i, f"app-{i}"
    core.handle(commands.SubmitApplication(PARTITION, app_id, f"root.{'ab'[i % 2]}", "alice"), now_ms)
    for k in range(4):
        need = {"vcore": 1 + i % 7, "memory": 1 + i}
        ask = Ask(PARTITION, app_id, f"{app_id}-{k}", need, execution_timeout_ms=DAY_MS + i)
        core.handle(commands.SubmitAsk(ask), now_ms)
    core.handle(commands.Schedule(100), now_ms)
    for uuid in list(core.state.partitions[PARTITION].applications[app_id].allocations):
        core.handle(commands.ReleaseAllocation(PARTITION, app_id, uuid, STOPPED_BY_RM, ""), now_ms)
    core.handle(commands.Tick(), now_ms + 500)


def objects() -> Counter[str]:
    """How many there are of each of the core's classes that the garbage collector knows."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    return Counter({kind.__name__: n for kind, n in kinds.items() if str(kind.__module__).startswith("remuda_core")})
