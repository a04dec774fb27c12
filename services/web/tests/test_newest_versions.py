"""Paths and fields of Apache YuniKorn 1.5 and later, and old paths up to 0.12."""

from __future__ import annotations

from typing import Any

import pytest

from services.web.tests.test_rows import PARTITION, application, get

PLACE = {
    **PARTITION, "node_sort": "fair", "resource_weights": {}, "draining_since_ms": 0,
    "preemption_enabled": True, "quota_preemption_enabled": False, "yunikorn_1_4": False,
}  # fmt: skip
NEW_FIELDS = {"headroom", "sortingPolicy", "prioritySorting", "preemptionEnabled", "isPreemptionFence", "childNames"}


def queue(path: str, **given: Any) -> dict[str, Any]:
    return {
        "partition": "default", "path": path, "status": "Active", "leaf": False, "managed": True, "allocated": {},
        "pending": {}, "preempting": {}, "guaranteed": {}, "max": {}, "properties": {}, "template": None,
        "excess": None, "max_applications": 0, "running_applications": 0, "priority": 0, "asks_pending": False,
        "allocating_accepted_applications": [],
    } | given  # fmt: skip


FENCED = {
    "preemption.policy": "fence", "priority.policy": "fence", "priority.offset": "7", "preemption.delay": "9s",
    "application.sort.priority": "disabled", "application.sort.policy": "fair",
}  # fmt: skip
QUEUES = [
    queue("root", allocated={"vcore": 1}),
    queue("root.a", allocated={"vcore": 1}, max={"vcore": 2, "gpu": 1}, properties={"preemption.policy": "disabled"}),
    queue("root.a.x", leaf=True, allocated={"vcore": 1}, max={"vcore": 8}, properties=FENCED),
    queue("root.b", leaf=True),
]


def served(**place: Any) -> Any:
    rows = [_application("app-1"), {**_application("app-2"), "state": "Completed"}]
    return application({"partitions": [{**PLACE, **place}], "queues": QUEUES, "applications": rows})


def _application(name: str) -> dict[str, Any]:
    return {
        "partition": "default", "id": name, "queue": "root.a.x", "state": "Running", "allocated": {}, "pending": {},
        "max_allocated": {}, "submitted_ms": 1, "since_ms": 2, "user": "bob", "groups": [], "states": [],
        "task_groups": [], "reservations": [], "priority": 0, "asks": 0,
    }  # fmt: skip


async def test_fields_of_queues() -> None:
    root = (await get(served(), "/ws/v1/partition/default/queues")).json()
    a, b = root["children"]
    (x,) = a["children"]
    assert [root["headroom"], a["headroom"], x["headroom"], b["headroom"]] == [
        {"vcore": 3}, {"vcore": 1, "gpu": 1}, {"vcore": 1, "gpu": 1}, {"vcore": 3},
    ]  # fmt: skip
    assert (root["childNames"], a["childNames"], x.get("childNames")) == (["root.a", "root.b"], ["root.a.x"], None)
    assert (a["preemptionEnabled"], a["isPreemptionFence"], a["sortingPolicy"]) == (False, False, "fair")
    assert (b["sortingPolicy"], b["prioritySorting"], b["preemptionDelay"]) == ("fifo", True, "30s")
    assert {name: x[name] for name in sorted(x) if name.startswith("is") or "riority" in name} == {
        "currentPriority": -(2**31), "isLeaf": True, "isManaged": True, "isPreemptionFence": True,
        "isPriorityFence": True, "priorityOffset": 7, "prioritySorting": False,
    }  # fmt: skip
    assert (x["preemptionDelay"], x["sortingPolicy"], x["preemptionEnabled"]) == ("9s", "fair", True)


async def test_queues_of_the_default_partition_where_several_rms_have_one() -> None:
    """The web interface of the family asks for it by this name alone."""
    app = served()
    app.answers._source.rms = lambda: ["rm-1", "rm-2"]
    named = (await get(app, "/ws/v1/partitions")).json()
    assert [one["name"] for one in named] == ["[rm-1]default", "[rm-2]default"]
    root = (await get(app, "/ws/v1/partition/default/queues")).json()
    assert (root["queuename"], root["partition"]) == ("root", "[rm-1]default")
    assert (await get(app, "/ws/v1/partition/default/nodes")).status_code == 400


async def test_a_queue_alone_and_with_its_subtree() -> None:
    alone = (await get(served(), "/ws/v1/partition/default/queue/root.a")).json()
    assert ("children" in alone, alone["childNames"]) == (False, ["root.a.x"])
    below = (await get(served(), "/ws/v1/partition/default/queue/root.a?subtree")).json()
    assert [one["queuename"] for one in below["children"]] == ["root.a.x"]
    assert (below["queuename"], below["headroom"]) == ("root.a", {"vcore": 1, "gpu": 1})


async def test_applications_of_a_queue_by_state() -> None:
    for state, found in (("active", ["app-1"]), ("completed", ["app-2"]), ("active?status=failing", [])):
        answer = await get(served(), f"/ws/v1/partition/default/queue/root.a.x/applications/{state}")
        assert [one["applicationID"] for one in answer.json()] == found, state
    refused = await get(served(), "/ws/v1/partition/default/queue/root.a.x/applications/other")
    assert (refused.status_code, "Only following application states" in refused.text) == (400, True)


async def test_fields_of_partitions() -> None:
    (found,) = (await get(served(), "/ws/v1/partitions")).json()
    assert (found["preemptionEnabled"], found["quotaPreemptionEnabled"]) == (True, False)


async def test_under_the_rules_of_1_4_the_fields_are_those_of_1_4() -> None:
    app = served(yunikorn_1_4=True)
    root = (await get(app, "/ws/v1/partition/default/queues")).json()
    assert not NEW_FIELDS & root.keys()
    assert not NEW_FIELDS & (await get(app, "/ws/v1/partition/default/queue/root.a")).json().keys()
    assert "preemptionEnabled" not in (await get(app, "/ws/v1/partitions")).json()[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/queues", "/partition/default/queues"), ("/nodes", "/partition/default/nodes"),
        ("/apps?status=running", "/partition/default/applications/active?status=running"),
        ("/apps/completed", "/partition/default/applications/completed"),
        ("/nodes/utilization", "/scheduler/node-utilization"),
    ],
)  # fmt: skip
async def test_old_paths_lead_to_what_took_their_place(old: str, new: str) -> None:
    answer = await get(served(), f"/ws/v1{old}")
    assert (answer.status_code, answer.headers["Location"]) == (301, f"/ws/v1{new}")


async def test_the_state_dump_has_its_path_of_1_5_too() -> None:
    assert (await get(application({}), "/debug/fullstatedump")).status_code == 200


async def test_foreign_allocations_of_nodes() -> None:
    one = {"application_id": "", "allocation_key": "pod", "uuid": "pod", "resource": {"vcore": 1}, "reason": "x"}
    node = {
        "partition": "default", "id": "n1", "attributes": {}, "capacity": {"vcore": 4}, "occupied": {"vcore": 2},
        "allocated": {}, "available": {"vcore": 2}, "status": "Schedulable", "reserved_for": None,
        "rejected": [{**one, "foreign": True}, {**one, "foreign": False, "application_id": "app"}],
    }  # fmt: skip
    app = application({"partitions": [PLACE], "nodes": [node], "allocations": []})
    found = (await get(app, "/ws/v1/partition/default/node/n1")).json()
    assert found["foreignAllocations"] == [{"allocationKey": "pod", "resource": {"vcore": 1}, "nodeId": "n1"}]
