"""Answers in pages: however much there is, each fits into a message, and together they are all there is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from remuda_bus.bus import Refused
from remuda_core import commands
from remuda_core.actions import Action, DrainNode
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.facts import PLACEHOLDER_REPLACED, Ask
from remuda_core.limits import DRAIN_REPORTED_MS, PAGE_BYTES
from remuda_core.settings import Configuration, Limit, PartitionSettings, QueueInWindow, QueueSettings, Window
from remuda_core.shell.queries import Queries

PARTITION = "[rm-1]default"
NOW_MS = 1_700_000_000_000


def core(asks: int = 0, nodes: int = 1, queues: int = 2, applications: int = 3) -> Core:
    core = Core("rm-1")
    below = tuple(QueueSettings(f"q{n}", max={"vcore": 2}) for n in range(queues))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=below)
    configuration = Configuration("sum", (PartitionSettings("default", root), PartitionSettings("other", root)))
    core.handle(commands.Register("rm-1", configuration), NOW_MS)
    for n in range(nodes):
        core.handle(commands.UpdateNode(PARTITION, f"n{n}", "CREATE", {}, {"vcore": 4}), NOW_MS)
    for n in range(applications):
        core.handle(commands.SubmitApplication(PARTITION, f"app-{n}", f"root.q{n % queues}", "ann"), NOW_MS)
        for k in range(asks // applications):
            core.handle(commands.SubmitAsk(Ask(PARTITION, f"app-{n}", f"k{k}", {"vcore": 1})), NOW_MS)
    core.handle(commands.Schedule(1_000_000), NOW_MS)
    return core


def pages(question: Any, name: str, **request: Any) -> list[list[dict[str, Any]]]:
    found = []
    while True:
        encoded = msgspec.json.encode(question(request))
        assert len(encoded) < 1_000_000
        page = msgspec.json.decode(encoded)
        found.append(page[name])
        if "next" not in page:
            return found
        request = {**request, "after": page["next"]}


def rows(question: Any, name: str, **request: Any) -> list[dict[str, Any]]:
    return [row for page in pages(question, name, **request) for row in page]


def test_tens_of_thousands_of_asks_are_explained_in_pages() -> None:
    queries = Queries(core(asks=30_000))
    found = pages(queries.explain, "asks")
    assert len(found) >= 30_000 * 400 / PAGE_BYTES
    keys = [(row["application"], row["key"]) for page in found for row in page]
    assert len(set(keys)) == len(keys) == 30_000 - 4
    assert {row["constraints"][0]["where"] for page in found for row in page} == {"root.q0", "root.q1"}
    first = found[0][0]
    assert (first["application"], first["key"], first["position"]["ahead"]) == ("app-0", "k2", 0)


def test_queues_nodes_applications_and_allocations_in_pages() -> None:
    queries = Queries(core(asks=60, nodes=7, queues=9, applications=20))
    for question, name, count in (
        (queries.queues, "queues", 20),
        (queries.nodes, "nodes", 7),
        (queries.applications, "applications", 20),
        (queries.allocations, "allocations", 18),
    ):
        whole = rows(question, name)
        assert len(whole) == count
        by_three = pages(question, name, limit=3)
        assert [len(page) for page in by_three[:-1]] == [3] * (len(by_three) - 1)
        assert [row for page in by_three for row in page] == whole


def test_a_page_goes_on_although_what_it_ended_with_is_gone() -> None:
    small = core(asks=30, applications=1)
    queries = Queries(small)
    first = msgspec.json.decode(msgspec.json.encode(queries.explain({"limit": 5})))
    for row in first["asks"]:
        small.handle(commands.ReleaseAsk(PARTITION, row["application"], row["key"]), NOW_MS)
    second = rows(queries.explain, "asks", limit=5, after=first["next"])
    assert [row["key"] for row in second] == [f"k{n}" for n in range(7, 30)]


def test_what_is_asked_for() -> None:
    queries = Queries(core(asks=30))
    assert {row["application"] for row in rows(queries.explain, "asks", application="app-1")} == {"app-1"}
    assert [row["key"] for row in rows(queries.explain, "asks", application="app-1", key="k7")] == ["k7"]
    assert {row["queue"] for row in rows(queries.explain, "asks", queue="root.q1")} == {"root.q1"}
    assert [row["id"] for row in rows(queries.applications, "applications", queue="root.q1")] == ["app-1"]
    assert {row["application"] for row in rows(queries.allocations, "allocations", application="app-0")} == {"app-0"}
    assert rows(queries.allocations, "allocations", node="elsewhere") == []
    with pytest.raises(Refused, match="application 'nobody' does not exist"):
        queries.explain({"application": "nobody"})


def test_rejections_are_found() -> None:
    small = core()
    for n in (1, 2, 1):
        small.handle(commands.SubmitApplication(PARTITION, f"late-{n}", "root.nowhere", "ann"), NOW_MS + n)
    found = rows(Queries(small).rejections, "rejections", limit=1)
    assert [(row["id"], row["queue"], row["user"]) for row in found] == [
        ("late-1", "root.nowhere", "ann"), ("late-2", "root.nowhere", "ann"),
    ]  # fmt: skip
    assert "root.nowhere does not exist" in found[0]["reason"]


@pytest.mark.parametrize("after", [1, "x", ["default", "x", 1], [None, None, None], {}])
def test_a_place_nobody_named_is_refused(after: object) -> None:
    with pytest.raises(Refused, match="expected the `next` of the page before"):
        Queries(core(asks=30)).explain({"after": after})


@pytest.mark.parametrize("limit", [0, -1, "10", True, None, 1.5])
def test_a_limit_is_a_number_from_1(limit: object) -> None:
    with pytest.raises(Refused, match="expected a number from 1"):
        Queries(core()).explain({"limit": limit})


def test_since_when_is_known_once_it_was_told() -> None:
    small = core(asks=3, applications=1)
    small.handle(commands.Tick(), NOW_MS + 5_000)
    small.handle(commands.Tick(), NOW_MS + 200_000)
    (row,) = rows(Queries(small).explain, "asks")
    assert row["since_ms"] == NOW_MS
    assert [constraint["since_ms"] for constraint in row["constraints"]] == [NOW_MS + 5_000]


def test_what_preemption_does_for_an_ask_is_explained() -> None:
    """It may not take from a queue that has no more than its guaranteed."""
    core = Core("rm-1")
    below = (QueueSettings("rich", guaranteed={"vcore": 4}), QueueSettings("poor", guaranteed={"vcore": 2}))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=below)
    settings = PartitionSettings("default", root, preemption_enabled=True)
    core.handle(commands.Register("rm-1", Configuration("sum", (settings,))), NOW_MS)
    core.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 4}), NOW_MS)
    for name in ("rich", "poor"):
        core.handle(commands.SubmitApplication(PARTITION, name, f"root.{name}", "ann"), NOW_MS)
    core.handle(commands.SubmitAsk(Ask(PARTITION, "rich", "k", {"vcore": 1}, 4)), NOW_MS)
    core.handle(commands.Schedule(10), NOW_MS)
    ask = Ask(PARTITION, "poor", "k", {"vcore": 1}, allow_preempt_other=True)
    core.handle(commands.SubmitAsk(ask), NOW_MS)
    core.handle(commands.Schedule(10), NOW_MS)
    (row,) = rows(Queries(core).explain, "asks")
    assert [constraint["constraint"] for constraint in row["constraints"]] == ["node", "preemption"]
    assert "no queue inside its preemption fence" in row["constraints"][1]["reason"]


def test_what_users_and_groups_have_and_may_have() -> None:
    core = Core("rm-1")
    limits = (
        Limit(users=("ann",), max_resources={"vcore": 5}, max_applications=2),
        Limit(groups=("dev",), max_resources={"vcore": 3}),
        Limit(users=("zoe", "*"), max_resources={"vcore": 4}),
    )
    below = (QueueSettings("a", limits=limits), QueueSettings("b"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=below)
    core.handle(commands.Register("rm-1", Configuration("sum", (PartitionSettings("default", root),))), NOW_MS)
    core.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 9}), NOW_MS)
    for name, queue, user, groups in (("1", "a", "ann", ()), ("2", "b", "ann", ()), ("3", "a", "bob", ("dev",))):
        core.handle(commands.SubmitApplication(PARTITION, name, f"root.{queue}", user, groups), NOW_MS)
        core.handle(commands.SubmitAsk(Ask(PARTITION, name, "k", {"vcore": int(name)})), NOW_MS)
    core.handle(commands.Schedule(10), NOW_MS)
    found = {
        (row.get("user"), row.get("group"), row["queue"]): row for row in rows(Queries(core).usage, "usage", limit=2)
    }
    assert {who: row["used"] for who, row in found.items()} == {
        ("ann", None, "root"): {"vcore": 3},
        ("ann", None, "root.a"): {"vcore": 1},
        ("ann", None, "root.b"): {"vcore": 2},
        ("bob", None, "root"): {"vcore": 3},
        ("bob", None, "root.a"): {"vcore": 3},
        (None, "dev", "root.a"): {"vcore": 3},
        ("zoe", None, "root.a"): {},
        ("*", None, "root.a"): {},
    }
    assert found["bob", None, "root.a"]["max"] == found["zoe", None, "root.a"]["max"] == {"vcore": 4}
    ann, dev = found["ann", None, "root.a"], found[None, "dev", "root.a"]
    assert (ann["max"], ann["max_applications"], ann["running_applications"]) == ({"vcore": 5}, 2, 1)
    assert (dev["max"], dev["applications"]) == ({"vcore": 3}, 1)
    assert {row["queue"] for row in rows(Queries(core).usage, "usage", group="dev")} == {"root.a"}


def test_what_an_application_asks_for_is_kept_from_the_first_answer_on() -> None:
    small = core(asks=30, applications=1)
    queries = Queries(small)
    (before,) = rows(queries.applications, "applications")
    assert (before["asks"], before["pending"]) == (28, {"vcore": 28})
    small.handle(commands.SubmitAsk(Ask(PARTITION, "app-0", "k29", {"vcore": 1, "gpu": 2}, 3)), NOW_MS)
    small.handle(commands.ReleaseAsk(PARTITION, "app-0", "k28"), NOW_MS)
    for uuid in tuple(small.state.partitions[PARTITION].allocations):
        small.handle(commands.ReleaseAllocation(PARTITION, "app-0", uuid), NOW_MS)
    small.handle(commands.Schedule(100), NOW_MS)
    (after,) = rows(queries.applications, "applications")
    assert (after["asks"], after["pending"]) == (27, {"vcore": 27, "gpu": 6})
    check(small.state)


def test_ask_that_replaces_a_placeholder_is_listed_with_it() -> None:
    """It is pending no more, and no allocation yet."""
    of = core(applications=1)
    placeholder = Ask(PARTITION, "app-0", "p", {"vcore": 1}, task_group="tg", placeholder=True)
    real = Ask(PARTITION, "app-0", "r", {"vcore": 1}, task_group="tg", tags={"a": "b"})
    for ask in (placeholder, real):
        of.handle(commands.SubmitAsk(ask), NOW_MS)
        of.handle(commands.Schedule(10), NOW_MS)
    queries = Queries(of)
    (row,) = rows(queries.allocations, "allocations")
    assert rows(queries.asks, "asks") == []
    there = row["replacement"]
    assert (row["key"], there["key"], there["node"], there["tags"]) == ("p", "r", "n0", {"a": "b"})
    of.handle(commands.ReleaseAllocation(PARTITION, "app-0", row["uuid"], PLACEHOLDER_REPLACED), NOW_MS)
    assert [(one["key"], one["uuid"], one["replacement"]) for one in rows(queries.allocations, "allocations")] == [
        ("r", there["uuid"], None)
    ]


def test_listings_of_few_entries_do_not_drive_out_those_of_many() -> None:
    """The order of many asks is kept, though the page before them goes through more applications than are kept."""
    small = core(applications=100)
    for n in range(200):
        small.handle(commands.SubmitAsk(Ask(PARTITION, "app-99", f"k{n}", {"vcore": 9})), NOW_MS)
    queries = Queries(small)
    queries.explain({"limit": 10})
    kept = set(queries._listings.values())
    queries.explain({"limit": 10})
    assert set(queries._listings.values()) == kept
    assert {len(listing.entries) for listing in kept} == {200}


@pytest.mark.parametrize("kind", ["applications", "allocations", "usage", "explain"])
@pytest.mark.parametrize("value", [["app-0"], {"a": 1}, 1, True])
def test_what_is_asked_for_is_a_text(kind: str, value: object) -> None:
    queries, name = Queries(core()), "user" if kind == "usage" else "application"
    with pytest.raises(Refused, match=f"^{name} is .*, expected a text"):
        queries.kinds[kind]({name: value})


def test_draining_queues_alone_with_what_they_have_and_who_administers_them() -> None:
    made = core(asks=6)
    below = (QueueSettings("q0"),)
    root = QueueSettings("root", parent=True, submit_acl="*", admin_acl="ops", queues=below)
    partitions = (PartitionSettings("default", root), PartitionSettings("other", root))
    made.handle(commands.Configure(Configuration("another", partitions)), NOW_MS + 5)
    queries = Queries(made)
    found = rows(queries.queues, "queues", draining=True)
    assert [(row["partition"], row["path"]) for row in found] == [("default", "root.q1"), ("other", "root.q1")]
    assert found[0]["draining_since_ms"] == NOW_MS + 5
    assert found[0]["draining"] == {
        "applications": [{"id": "app-1", "user": "ann", "state": "Running", "allocated": {"vcore": 2}}],
        "admin_acls": ["ops"],
        "report_ms": NOW_MS + 5 + DRAIN_REPORTED_MS,
    }
    assert all(row["draining"] is None for row in rows(queries.queues, "queues") if row["path"] == "root.q0")
    with pytest.raises(Refused, match="draining is 'x', expected true or false"):
        queries.queues({"draining": "x"})


def test_the_outcome_of_an_action_by_its_id() -> None:
    found = core()

    def act(action_id: str, action: Action, scheduler: bool) -> None:
        known = f"ann/{action_id}"
        found.handle(commands.Administer("ann", (), scheduler, "disks", known, False, PARTITION, action), NOW_MS)

    act("one", DrainNode("n0"), True)
    act("two", DrainNode("n0"), False)
    queries = Queries(found)
    (one,) = rows(queries.actions, "actions", action="one")
    assert (one["action_id"], one["kind"], one["node_id"], one["outcome"]) == ("ann/one", "DrainNode", "n0", "accepted")
    assert (one["partition"], one["reason"], one["overridden"]) == ("default", "disks", [])
    (two,) = rows(queries.actions, "actions", action="ann/two")
    assert two["outcome"] == "refused" and "may not administer nodes" in two["refusal"]
    assert rows(queries.actions, "actions", action="three") == []
    assert [row["action_id"] for row in rows(queries.actions, "actions", limit=1)] == ["ann/one", "ann/two"]


def test_when_a_node_is_drained_next() -> None:
    found, hour_ms = core(), 3_600_000

    def node() -> dict[str, Any]:
        return next(row for row in rows(Queries(found).nodes, "nodes") if row["id"] == "n0")

    def update(leaves: str) -> None:
        attributes = {"remuda/leavesAt": leaves}
        found.handle(commands.UpdateNode(PARTITION, "n0", "UPDATE", attributes), NOW_MS + 1)

    assert node()["leaving"] is None
    drain = DrainNode("n0", NOW_MS + hour_ms)
    found.handle(commands.Administer("ann", (), True, "disks", "ann/one", False, PARTITION, drain), NOW_MS)
    by_ann = {"at_ms": NOW_MS + hour_ms, "operator": "ann", "reason": "disks", "since_ms": NOW_MS, "window": ""}
    assert (node()["leaving"], node()["drained"], node()["status"]) == (by_ann, None, "Schedulable")
    update(str(NOW_MS + 2 * hour_ms))
    assert node()["leaving"] == by_ann, "the earlier time counts"
    update(str(NOW_MS + hour_ms // 2))
    assert node()["leaving"] == {
        "at_ms": NOW_MS + hour_ms // 2,
        "operator": "",
        "reason": "",
        "since_ms": 0,
        "window": "",
    }
    found.handle(commands.Tick(), NOW_MS + hour_ms)
    assert (node()["leaving"], node()["drained"]["operator"], node()["status"]) == (None, "ann", "Draining")


def test_windows_and_the_nodes_in_them() -> None:
    minute_ms = 60_000
    queue = QueueSettings("q")
    calendar = (
        Window("disks", NOW_MS + minute_ms, duration_ms=minute_ms, ids=("n0",), release=True),
        Window("books", NOW_MS + 5 * minute_ms, duration_ms=minute_ms, ids=("*",), queue="root.q", lead_ms=minute_ms),
        Window("night", NOW_MS, duration_ms=minute_ms, queues=(QueueInWindow("root.q", queue),)),
        Window("past", 1, duration_ms=minute_ms, ids=("n1",)),
    )
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(queue,))
    found = Core("rm-1")
    configuration = Configuration("1", (PartitionSettings("default", root, calendar=calendar),))
    found.handle(commands.Register("rm-1", configuration), NOW_MS)
    for name in ("n0", "n1"):
        found.handle(commands.UpdateNode(PARTITION, name, "CREATE", {}, {"vcore": 4}), NOW_MS)
    queries = Queries(found)

    def windows(**request: Any) -> dict[str, list[Any]]:
        told = ("kind", "open", "opens_ms", "from_ms", "until_ms", "nodes", "queue", "queues")
        return {row["name"]: [row[one] for one in told] for row in rows(queries.windows, "windows", **request)}

    def nodes() -> list[tuple[str, Any, list[str]]]:
        every = rows(queries.nodes, "nodes")
        return [(row["status"], row["leaving"] and row["leaving"]["window"], row["windows"]) for row in every]

    def at(minutes: int) -> int:
        return NOW_MS + minutes * minute_ms

    assert windows(limit=1) == {
        "books": ["kept", False, at(4), at(5), at(6), 2, "root.q", []],
        "disks": ["maintenance", False, at(1), at(1), at(2), 1, "", []],
        "night": ["settings", True, at(0), at(0), at(1), 0, "", ["root.q"]],
        "past": ["maintenance", False, 0, 0, 0, 1, "", []],
    }
    assert nodes() == [("Schedulable", "disks", []), ("Schedulable", None, [])]
    found.handle(commands.Tick(), at(1))
    assert nodes() == [("Draining", None, ["disks"]), ("Schedulable", None, [])]
    found.handle(commands.Tick(), at(4))
    assert nodes() == [("Schedulable", None, ["books"]), ("Schedulable", None, ["books"])]
    assert windows()["disks"] == ["maintenance", False, 0, 0, 0, 1, "", []]


def test_names_of_queues_are_compared_in_lower_case() -> None:
    queries = Queries(core(asks=6))
    for question, name in ((queries.applications, "applications"), (queries.asks, "asks"), (queries.explain, "asks")):
        assert rows(question, name, queue="ROOT.Q0") == rows(question, name, queue="root.q0") != []
    asked = {"partition": "default", "queue": "Root.Q0", "prefix": "app"}
    assert queries.guests(asked)["partition"] == queries.guests({**asked, "queue": "root.q0"})["partition"]
