"""What queues and users have used in the past, beside what was due to them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core import limits
from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, Tick, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.shell.fair_shares import Sibling, shares_of
from remuda_core.shell.queries import Queries
from remuda_core.state import Account

PARTITION = "[rm-1]default"
HOUR_MS = 3_600_000
MEMORY = {"fair.half-life": "1h", "fair.ahead": "1ms"}


class Cluster:
    def __init__(self, **properties: dict[str, str]) -> None:
        """The properties of each queue by its name; root has a half-life of an hour."""
        self.core, self.now_ms = Core("rm-1"), 0
        queues = tuple(QueueSettings(name, properties={**MEMORY, **more}) for name, more in properties.items())
        root = QueueSettings("root", parent=True, submit_acl="*", queues=queues, properties=MEMORY)
        self.handle(Register("rm-1", Configuration("", (PartitionSettings("default", root),))))
        self.handle(UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 8, "memory": 100}))

    def handle(self, command: Any) -> None:
        self.core.handle(command, self.now_ms)

    def use(
        self, name: str, queue: str, user: str, vcore: int, memory: int = 0, groups: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        self.handle(SubmitApplication(PARTITION, name, f"root.{queue}", user, groups))
        need = {"vcore": vcore, "memory": memory} if memory else {"vcore": vcore}
        self.handle(SubmitAsk(Ask(PARTITION, name, "k", need)))
        self.handle(Schedule(10))

    def release(self, name: str) -> None:
        (uuid,) = self.core.state.partitions[PARTITION].applications[name].allocations
        self.handle(ReleaseAllocation(PARTITION, name, uuid, STOPPED_BY_RM, ""))

    def rows(self, kind: str) -> list[dict[str, Any]]:
        found = Queries(self.core).kinds[kind]({})
        return msgspec.json.decode(msgspec.json.encode(found))[kind]

    def queue(self, name: str) -> dict[str, Any] | None:
        return next(row["fair_share"] for row in self.rows("queues") if row["path"] == name)


def test_shares_of_queues_are_by_past_use_and_targets_by_weight() -> None:
    cluster = Cluster(a={"fair.weight": "3"}, b={})
    cluster.use("app-a", "a", "ann", 4)
    cluster.use("app-b", "b", "bob", 2, memory=10)
    cluster.now_ms = HOUR_MS
    cluster.release("app-b")
    a, b = cluster.queue("root.a"), cluster.queue("root.b")
    assert a is not None and b is not None
    assert (a["half_life_ms"], a["resource"]) == (HOUR_MS, "vcore")
    assert (a["mean"], b["mean"]) == ({"vcore": 2}, {"vcore": 1, "memory": 5}), "half of all time was before the first"
    assert (a["share"], a["target"], b["target"]) == (pytest.approx(2 / 3), 0.75, 0.25)
    assert (a["owes"], b["owes"]) == ({"vcore": 0, "memory": -4}, {"vcore": 0, "memory": 4})
    assert cluster.queue("root") is None, "it has no siblings"


def test_targets_of_users_are_by_their_weights() -> None:
    policy = {"application.sort.policy": "fair-users", "fair.user-weights": "ann=3"}
    cluster = Cluster(a=policy, b={})
    cluster.use("app-1", "a", "ann", 4)
    cluster.use("app-2", "a", "bob", 4)
    cluster.now_ms = HOUR_MS
    shares = {row["user"]: row["fair_share"] for row in cluster.rows("usage") if row["queue"] == "root.a"}
    assert {user: (one["share"], one["target"]) for user, one in shares.items()} == {
        "ann": (0.5, 0.75), "bob": (0.5, 0.25),
    }  # fmt: skip


def test_the_weight_of_a_group_is_that_of_the_first_application() -> None:
    """As in the ranking, where a user counts as the application that is next does."""
    policy = {"application.sort.policy": "fair-users", "fair.user-weights": "@staff=3"}
    cluster = Cluster(a=policy, b={})
    cluster.use("app-1", "a", "ann", 4, groups=("staff",))
    cluster.use("app-2", "a", "bob", 4)
    cluster.use("app-3", "a", "ann", 1)
    targets = {row["user"]: row["fair_share"]["target"] for row in cluster.rows("usage") if row["queue"] == "root.a"}
    assert targets == {"ann": 0.75, "bob": 0.25}


def test_users_of_a_leaf_have_shares_also_when_they_have_left() -> None:
    cluster = Cluster(a={"application.sort.policy": "fair-users"}, b={})
    cluster.use("app-1", "a", "ann", 4)
    cluster.use("app-2", "a", "bob", 4)
    cluster.now_ms = HOUR_MS
    cluster.release("app-1")
    cluster.now_ms = 3 * HOUR_MS
    cluster.handle(Tick())
    rows = {(row.get("user"), row["queue"]): row for row in cluster.rows("usage")}
    ann, bob = rows["ann", "root.a"], rows["bob", "root.a"]
    assert (ann["used"], ann["fair_share"]["mean"]) == ({}, {"vcore": 0})
    assert ann["fair_share"]["share"] == pytest.approx(1 / 8, abs=1e-3), "1 of 8, beside 7 of 8"
    assert (bob["fair_share"]["share"], bob["fair_share"]["target"]) == (pytest.approx(7 / 8, abs=1e-3), 0.5)
    assert rows["bob", "root"]["fair_share"] is None


def test_without_a_half_life_nothing_is_shown() -> None:
    cluster = Cluster(a={})
    cluster.core = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    cluster.handle(Register("rm-1", Configuration("", (PartitionSettings("default", root),))))
    cluster.use("app", "a", "ann", 1)
    assert {row["fair_share"] for kind in ("queues", "usage") for row in cluster.rows(kind)} == {None}


def test_groups_of_siblings_are_summed_once_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUMS_KEPT_S", 60.0)
    cluster = Cluster(**{f"q{number}": {} for number in range(20)})
    measured: list[int] = []
    means = Account.means

    def counted(account: Account, at_ms: int) -> Any:
        measured.append(at_ms)
        return means(account, at_ms)

    monkeypatch.setattr(Account, "means", counted)
    cluster.rows("queues")
    assert len(measured) == 20


amounts = st.dictionaries(st.sampled_from(("gpu", "memory", "vcore")), st.integers(0, 10**9))


@given(st.lists(st.tuples(st.integers(1, 10**6), amounts, amounts, st.integers(0, 10**8)), min_size=1, max_size=6))
def test_shares_and_targets_add_up_to_one_and_debts_to_nothing(
    of: list[tuple[int, dict[str, int], dict[str, int], int]],
) -> None:
    siblings = []
    for number, (weight, used, due, lasts_ms) in enumerate(of):
        account = Account(HOUR_MS, 0)
        account.book(used, 1)
        account.settle(lasts_ms)
        account.book(used, -1)
        siblings.append(Sibling(str(number), account, weight, due))
    found = shares_of(siblings, {"gpu": 10, "vcore": 1_000}, 10**8)
    assert sum(one.target for one in found.values()) == pytest.approx(1.0)
    has_used = any(one.resource for one in found.values())
    assert sum(one.share for one in found.values()) == pytest.approx(1.0 if has_used else 0.0)
    for name in ("gpu", "memory", "vcore"):
        assert abs(sum(one.owes.get(name, 0) for one in found.values())) <= len(found), "but for rounding"
