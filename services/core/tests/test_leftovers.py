"""Added and removed objects leave nothing behind, beside any that stay: after 800 rounds a core holds as much as after
200."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from remuda_core import commands
from remuda_core.check import check
from remuda_core.check.sizes import EACH, sizes
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings, Timing

PARTITION = "[rm]default"
FEW = 4  # leftovers are allowed
OFTEN = 800


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("remuda_core"):
            for limit, value in (("LEFTOVERS", FEW), ("ENDED_APPLICATIONS", 20), ("TASK_GROUPS_KEPT", FEW)):
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, value)


class Site:
    """A core with four nodes. In queue `root.a` an ask of application `stays` waits for ever."""

    def __init__(self, policy: str = "fifo", **extra: str) -> None:
        self.core, self.now_ms = Core("rm"), 0
        properties = {"application.sort.policy": policy}
        limits = (Limit(("*",), (), {"vcore": 100}, 50),)
        due = {"vcore": 50}
        queues = (QueueSettings("a", False, due, {}, 0, properties), QueueSettings("limited", limits=limits))
        root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
        rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
        partition = PartitionSettings("default", root, placement_rules=rules)
        configuration = Configuration("1", (partition,), timing=Timing(completing_ms=1_000))
        self.handle(commands.Register("rm", configuration, extra_config=extra))
        for i in range(4):
            self.node(f"n{i}")
        self.submit("stays", "root.a")
        self.ask("stays", "head", {"vcore": 9}, allow_preempt_other=True)

    def handle(self, command: commands.Command) -> None:
        self.core.handle(command, self.now_ms)

    def node(self, node_id: str) -> None:
        self.handle(commands.UpdateNode(PARTITION, node_id, "CREATE", capacity={"vcore": 8}))

    def submit(self, app_id: str, queue: str, user: str = "alice", **more: object) -> None:
        self.handle(commands.SubmitApplication(PARTITION, app_id, queue, user, **more))  # type: ignore[arg-type]

    def ask(self, app_id: str, key: str, resource: dict[str, int], **more: object) -> None:
        self.handle(commands.SubmitAsk(Ask(PARTITION, app_id, key, resource, **more)))  # type: ignore[arg-type]

    def withdraw(self, app_id: str, key: str) -> None:
        self.handle(commands.ReleaseAsk(PARTITION, app_id, key))

    def release(self, app_id: str) -> None:
        self.handle(commands.ReleaseAllocation(PARTITION, app_id, ""))

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.handle(commands.Tick())
        self.handle(commands.CleanQueues())
        self.handle(commands.Schedule(100))


def asks_behind_a_head(site: Site, i: int) -> None:
    site.ask("stays", f"k{i}", {"vcore": 9})
    site.withdraw("stays", f"k{i}")


def asks_of_other_priorities(site: Site, i: int) -> None:
    site.ask("stays", f"k{i}", {"vcore": 9}, priority=-i - 1)
    site.pass_time(10)
    site.withdraw("stays", f"k{i}")


def asks_that_may_preempt(site: Site, i: int) -> None:
    site.ask("stays", f"k{i}", {"vcore": 9}, allow_preempt_other=True)
    site.withdraw("stays", f"k{i}")


def resources_written_otherwise(site: Site, i: int) -> None:
    site.ask("stays", f"k{i}", {"vcore": 9, f"r{i}": 0})
    site.withdraw("stays", f"k{i}")


def resources_of_other_names(site: Site, i: int) -> None:
    site.ask("stays", f"k{i}", {"vcore": 1, f"r{i}": 1})
    site.withdraw("stays", f"k{i}")


def applications_that_run_again(site: Site, i: int) -> None:
    if not i:
        site.submit("again", "root.limited")
    site.ask("again", f"k{i}", {"vcore": 1}, execution_timeout_ms=86_400_000)
    site.pass_time(1)
    site.release("again")


def applications_that_end(site: Site, i: int) -> None:
    site.submit(f"app-{i}", "root.limited", f"u{i}", execution_timeout_ms=86_400_000)
    site.ask(f"app-{i}", "k", {"vcore": 1})
    site.pass_time(1_000)
    site.release(f"app-{i}")


def ask_classes_that_wait(site: Site, i: int) -> None:
    if not i:
        site.submit("long", "root.limited")
        site.ask("long", "k", {"vcore": 9})
        site.ask("long", "other", {"vcore": 10})
    site.submit(f"app-{i}", "root.limited", f"u{i}")
    site.ask(f"app-{i}", "k", {"vcore": 9})
    site.pass_time(10)
    site.handle(commands.RemoveApplication(PARTITION, f"app-{i}"))


def turns_that_come(site: Site, i: int) -> None:
    if not i:
        site.submit("second", "root.a")
    site.ask("second", f"k{i}", {"vcore": 1})
    site.withdraw("second", f"k{i}")
    site.pass_time(10)


def nodes_that_are_used(site: Site, i: int) -> None:
    if not i:
        site.submit("bound", "root.limited")
    site.ask("bound", f"k{i}", {"vcore": 1}, tags={"si/requiredNode": f"n{1 + i % 2}"})
    site.pass_time(10)
    site.release("bound")


def nodes_that_come_and_go(site: Site, i: int) -> None:
    site.node(f"node-{i:06}")
    site.pass_time(10)
    site.handle(commands.UpdateNode(PARTITION, f"node-{i:06}", "DECOMISSION"))


def task_groups(site: Site, i: int) -> None:
    if not i:
        site.submit("gang", "root.a", placeholder_ask={"vcore": 8})
    site.ask("gang", f"k{i}", {"vcore": 1}, task_group=f"tg-{i}", placeholder=True)
    site.withdraw("gang", f"k{i}")


def quotas(site: Site, i: int) -> None:
    tags = {"namespace": "team"}
    for tag in ("namespace.resourcequota", "namespace.resourceguaranteed"):
        tags[tag] = json.dumps({"resources": {"vcore": {"value": i % 3}, f"r{i}": {"value": i % 2}}})
    site.submit(f"app-{i}", "", tags=tags)
    site.ask(f"app-{i}", "k", {"vcore": 9}, allow_preempt_other=True)
    site.pass_time(10)
    if i >= 3:
        site.handle(commands.RemoveApplication(PARTITION, f"app-{i - 3}"))


CASES: dict[str, tuple[Callable[[Site, int], None], Callable[[], Site]]] = {
    "asks behind a head": (asks_behind_a_head, Site),
    "asks of other priorities": (asks_of_other_priorities, Site),
    "asks that may preempt": (asks_that_may_preempt, Site),
    "resources written otherwise": (resources_written_otherwise, Site),
    "resources of other names": (resources_of_other_names, Site),
    "applications that run again": (applications_that_run_again, Site),
    "applications that end": (applications_that_end, Site),
    "ask classes that wait": (ask_classes_that_wait, Site),
    "ask classes that wait, no reservations": (ask_classes_that_wait, lambda: Site(**{"reservation.disabled": "true"})),
    "turns that come": (turns_that_come, lambda: Site("stateaware")),
    "nodes that are used": (nodes_that_are_used, Site),
    "nodes that come and go": (nodes_that_come_and_go, Site),
    "task groups": (task_groups, Site),
    "quotas": (quotas, Site),
}


@pytest.mark.parametrize("case", CASES)
def test_what_comes_and_goes_leaves_nothing_behind(case: str) -> None:
    come_and_go, begin = CASES[case]
    site = begin()
    site.pass_time(10)
    for i in range(OFTEN // 4):
        come_and_go(site, i)
    before = sizes(site.core.state, site.core.index)
    for i in range(OFTEN // 4, OFTEN):
        come_and_go(site, i)
    check(site.core.state, site.core.index)
    after = sizes(site.core.state, site.core.index)
    grown = {
        name: (before[name], count) for name, count in after.items() if name not in EACH and count > before[name] + 50
    }
    assert not grown
