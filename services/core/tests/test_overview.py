"""What operators look at first, against the same counted plainly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from remuda_core import commands
from remuda_core.actions import Action, DrainNode, HoldQueue
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.limits import OVERVIEW_ACTIONS, OVERVIEW_ROWS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.shell import queries as queries_module
from remuda_core.shell.queries import Queries
from remuda_core.snapshot import RESTORERS, save
from remuda_core.state import State

PARTITION = "[rm-1]default"
NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries_module, "SUMS_KEPT_S", 0.0)
    monkeypatch.setattr(queries_module, "SUMS_REST", 0)


def core(devices: dict[str, int] | None = None) -> Core:
    core = Core("rm-1")
    research = QueueSettings("research", guaranteed={"vcore": 8, "gpu": 2}, max={"vcore": 100})
    tenants = QueueSettings("tenants", parent=True, guaranteed={"vcore": 8}, queues=(research, QueueSettings("other")))
    root = QueueSettings("root", parent=True, submit_acl="*", admin_acl="*", queues=(tenants, QueueSettings("batch")))
    partition = PartitionSettings("default", root, devices=devices or {})
    core.handle(commands.Register("rm-1", Configuration("sum", (partition,))), NOW_MS)
    core.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 4, "gpu": 1}), NOW_MS)
    core.handle(commands.UpdateNode(PARTITION, "n2", "CREATE", {}, {"vcore": 4, "gpu": 1}), NOW_MS)
    for name in ("research", "other"):
        core.handle(commands.SubmitApplication(PARTITION, name, f"root.tenants.{name}", "ann"), NOW_MS)
    core.handle(commands.SubmitApplication(PARTITION, "batch", "root.batch", "bob"), NOW_MS)
    return core


def ask(core: Core, application: str, key: str, at_ms: int, pieces: int = 1, **resource: int) -> None:
    core.handle(commands.SubmitAsk(Ask(PARTITION, application, key, resource, pieces)), at_ms)


def act(core: Core, action_id: str, action: Action, at_ms: int) -> None:
    core.handle(commands.Administer("ann", (), True, "why", f"ann/{action_id}", False, PARTITION, action), at_ms)


def overview(core: Core) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Queries(core).overview({})))
    return found


def waiting(core: Core) -> dict[str, tuple[int, int]]:
    rows: Any = msgspec.json.decode(msgspec.json.encode(Queries(core).queues({})))["queues"]
    return {row["path"]: (row["waiting"], row["waiting_since_ms"]) for row in rows}


def test_who_waits_in_each_queue_and_since_when() -> None:
    small = core()
    ask(small, "batch", "k1", NOW_MS + 1, vcore=9)
    ask(small, "research", "k1", NOW_MS + 5, pieces=3, vcore=9)
    ask(small, "research", "k2", NOW_MS + 7, vcore=9)
    small.handle(commands.Schedule(100), NOW_MS + 10)
    assert waiting(small) == {
        "root": (5, NOW_MS + 1), "root.batch": (1, NOW_MS + 1), "root.tenants": (4, NOW_MS + 5),
        "root.tenants.other": (0, 0), "root.tenants.research": (4, NOW_MS + 5),
    }  # fmt: skip
    (partition,) = overview(small)["partitions"]
    assert (partition["waiting"], partition["waiting_since_ms"]) == (5, NOW_MS + 1)
    assert partition["pending"] == {"vcore": 45} and partition["total"] == {"vcore": 8, "gpu": 2}


def test_a_queue_is_owed_what_it_waits_for_and_nothing_else() -> None:
    """Eight cores are guaranteed to research and to tenants above it. What research does not ask for, it is not owed;
    what it is owed, tenants is not owed again; and a full queue that waits is owed nothing."""
    small = core()
    assert overview(small)["below_guarantee"] == {"total": 0, "rows": []}, "nobody waits"
    ask(small, "batch", "k", NOW_MS, pieces=2, vcore=4)
    small.handle(commands.Schedule(100), NOW_MS)
    ask(small, "research", "k", NOW_MS + 1, pieces=2, vcore=4)
    (row,) = overview(small)["below_guarantee"]["rows"]
    assert row == {
        "partition": "default", "queue": "root.tenants.research", "guaranteed": {"vcore": 8}, "allocated": {"vcore": 0},
        "pending": {"vcore": 8}, "waiting": 2, "waiting_since_ms": NOW_MS + 1,
    }  # fmt: skip
    small.handle(commands.UpdateNode(PARTITION, "n3", "CREATE", {}, {"vcore": 40, "gpu": 0}), NOW_MS + 2)
    small.handle(commands.Schedule(100), NOW_MS + 2)
    ask(small, "research", "more", NOW_MS + 3, vcore=1, gpu=1)
    assert overview(small)["below_guarantee"]["total"] == 0, "it has its cores: gpu it gets only with more of them"
    ask(small, "research", "alone", NOW_MS + 3, gpu=1)
    small.handle(commands.ReleaseAsk(PARTITION, "research", "more"), NOW_MS + 4)
    assert overview(small)["below_guarantee"]["rows"][0]["guaranteed"] == {"gpu": 2}


def test_a_node_is_drained_once_its_time_has_come() -> None:
    small = core()
    act(small, "d", DrainNode("n1", NOW_MS + 1_000), NOW_MS)
    assert overview(small)["drained"]["total"] == 0
    small.handle(commands.Tick(), NOW_MS + 1_000)
    assert [row["node"] for row in overview(small)["drained"]["rows"]] == ["n1"]


def test_idle_devices_count_where_a_node_takes_asks_that_want_them() -> None:
    small = core()
    ask(small, "batch", "k", NOW_MS, pieces=2, vcore=4)
    small.handle(commands.Schedule(100), NOW_MS)
    assert overview(small)["idle"]["rows"] == [], "nobody wants a device"
    ask(small, "other", "none", NOW_MS, vcore=1, gpu=0)
    assert overview(small)["idle"]["rows"] == [], "none of a device is no wish for one"
    ask(small, "other", "k", NOW_MS + 1, pieces=3, vcore=1, gpu=1)
    (row,) = overview(small)["idle"]["rows"]
    assert (row["resource"], row["free"], row["pending"], row["waiting"]) == ("gpu", 2, 3, 3)
    act(small, "d", DrainNode("n1"), NOW_MS + 2)
    (row,) = overview(small)["idle"]["rows"]
    assert row["free"] == 1


def test_rests_of_known_devices_are_not_idle() -> None:
    small = core({"gpu": 100})
    small.handle(commands.UpdateNode(PARTITION, "n3", "CREATE", {}, {"vcore": 4, "gpu": 200}), NOW_MS)
    ask(small, "other", "k", NOW_MS, gpu=30)
    small.handle(commands.Schedule(100), NOW_MS)
    ask(small, "other", "two", NOW_MS, gpu=200)
    (row,) = overview(small)["idle"]["rows"]
    assert (row["free"], row["devices"], row["waiting"]) == (100, 1, 1), "70 beside the ask are a rest"
    ask(small, "other", "more", NOW_MS, gpu=60, pieces=2)
    small.handle(commands.Schedule(100), NOW_MS + 1)
    assert overview(small)["idle"]["rows"] == []


def test_equal_asks_that_fit_nowhere_are_one_row() -> None:
    small = core()
    for n in range(5):
        ask(small, "other", f"k{n}", NOW_MS + n, pieces=2, vcore=40)
    ask(small, "other", "small", NOW_MS, vcore=1, gpu=1)
    later = NOW_MS + 120_000
    small.handle(commands.Tick(), later)
    small.handle(commands.Schedule(100), later)
    small.handle(commands.Tick(), later + 1)
    rows: Any = msgspec.json.decode(msgspec.json.encode(Queries(small).queues({})))["queues"]
    assert [row["waiting_for"] for row in rows if row["path"] in ("root", "root.tenants.other", "root.batch")] == [
        {"too_large": 10}, {}, {"too_large": 10},
    ]  # fmt: skip
    (row,) = overview(small)["fits_nowhere"]["rows"]
    assert row == {
        "partition": "default", "queue": "root.tenants.other", "application": "other", "key": "k0", "waiting": 10,
        "waiting_since_ms": NOW_MS,
    }  # fmt: skip


def test_an_ask_that_its_queue_holds_back_is_named_if_it_fits_nowhere_either() -> None:
    small = core()
    act(small, "h", HoldQueue("root.batch"), NOW_MS)
    ask(small, "batch", "large", NOW_MS, vcore=40)
    ask(small, "batch", "small", NOW_MS, vcore=1)
    later = NOW_MS + 120_000
    small.handle(commands.Tick(), later)
    small.handle(commands.Schedule(100), later)
    small.handle(commands.Tick(), later + 1)
    (row,) = overview(small)["fits_nowhere"]["rows"]
    assert (row["application"], row["key"], row["waiting"]) == ("batch", "large", 1)


def test_what_operators_did_last_with_its_time_also_after_a_restart() -> None:
    small = core()
    for n in range(OVERVIEW_ACTIONS):
        action = HoldQueue("root.batch") if n % 2 else DrainNode("n1")
        act(small, str(n), action, NOW_MS + n)
    found = overview(small)
    assert [(row["action_id"], row["at_ms"]) for row in found["actions"]] == [
        (f"ann/{n}", NOW_MS + n) for n in reversed(range(OVERVIEW_ACTIONS))
    ]
    restored = State("rm-1")
    for record in save(small.state):
        RESTORERS[type(record)](restored, record)
    assert restored.action_times == small.state.action_times != {}


def test_lists_are_bounded_and_say_how_many_there_are() -> None:
    small = core()
    for n in range(OVERVIEW_ROWS + 10):
        small.handle(commands.UpdateNode(PARTITION, f"m{n:02}", "CREATE", {}, {"vcore": 1}), NOW_MS)
        act(small, str(n), DrainNode(f"m{n:02}"), NOW_MS)
    found = overview(small)["drained"]
    assert (found["total"], len(found["rows"])) == (OVERVIEW_ROWS + 10, OVERVIEW_ROWS)
