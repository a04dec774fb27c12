"""Budgets as they are shown."""

from __future__ import annotations

import pytest

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Budget, Configuration, PartitionSettings, QueueSettings
from remuda_core.shell import metrics
from remuda_core.shell.budgets import use_of
from remuda_core.shell.state_metrics import measure

HOUR_MS = 3_600_000
PARTITION = "[rm-1]default"


@pytest.fixture
def core() -> Core:
    """An allocation of 2 runs for 4 hours at most, in a budget of 10 hours of 1 a day."""
    found = Core("rm-1")
    leaf = QueueSettings("a", budget=Budget({"vcore": 10, "gpu": 3}, "day", 0, "UTC"))
    root = QueueSettings("root", True, submit_acl="*", queues=(leaf,))
    for command in (
        commands.Register("rm-1", Configuration("1", (PartitionSettings("default", root),))),
        commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 8}, {}),
        commands.SubmitApplication(PARTITION, "app-1", "root.a", "ann"),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k1", {"vcore": 2}, 1, 0, 4 * HOUR_MS)),
        commands.Schedule(1),
    ):
        found.handle(command, 0)
    return found


def test_what_is_used_and_when_that_will_be_all(core: Core) -> None:
    core.handle(commands.Tick(), 2 * HOUR_MS)
    use = use_of(core.state.partitions[PARTITION].queues["root.a"].budgets[0])
    assert (use.period, use.zone, use.from_ms, use.until_ms) == ("day", "UTC", 0, 24 * HOUR_MS)
    assert use.amounts == {"vcore": 10, "gpu": 3}
    assert use.used == {"vcore": 4, "gpu": 0}
    assert use.committed == {"vcore": 4, "gpu": 0}
    assert use.left == {"vcore": 2, "gpu": 3}
    assert (use.reached, use.reached_ms) == ("vcore", 5 * HOUR_MS)


def test_a_budget_that_lasts_is_not_reached(core: Core) -> None:
    core.handle(commands.Tick(), HOUR_MS)
    uuid = next(iter(core.state.partitions[PARTITION].allocations))
    core.handle(commands.ReleaseAllocation(PARTITION, "app-1", uuid, 1, ""), HOUR_MS)
    core.handle(commands.Tick(), 20 * HOUR_MS)
    use = use_of(core.state.partitions[PARTITION].queues["root.a"].budgets[0])
    assert (use.used["vcore"], use.reached, use.reached_ms) == (2, "", 0)


def test_the_part_that_is_used_is_a_metric(core: Core) -> None:
    core.handle(commands.Tick(), 2 * HOUR_MS)
    measure([core.state])
    labels = ("rm-1", "default", "root.a")
    assert metrics.BUDGET_USED.labels(*labels, "vcore")._value.get() == 0.4
    assert metrics.BUDGET_USED.labels(*labels, "gpu")._value.get() == 0.0
