"""Pools, tasks and hosts as queues, asks and nodes of si.v1."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_peloton.rules.hosts import covers, need
from remuda_peloton.rules.task import Task
from remuda_peloton.wire.guests import Unmappable, ask_amounts, host_of_node, queue_of, quota_tags
from remuda_proto.names import QUEUE

amounts = st.tuples(*[st.floats(0, 1_000) for _ in range(4)])


def test_a_pool_is_a_queue() -> None:
    assert queue_of("root.peloton", "/batch/nightly-2") == "root.peloton.batch.nightly-2"
    assert queue_of("root.peloton", "/Team/a_b") == "root.peloton._54eam.a_5fb"
    with pytest.raises(Unmappable, match="more than 64 characters"):
        queue_of("root.peloton", "/" + "x" * 65)
    with pytest.raises(Unmappable, match="levels"):
        queue_of("root.peloton", "/x" * 100)


@given(st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name), st.text(min_size=1, max_size=12))
def test_queues_have_names_that_are_allowed_and_tell_pools_apart(name: str, other: str) -> None:
    try:
        queue = queue_of("root.peloton", f"/{name}")
    except Unmappable:
        return
    assert QUEUE.matches(queue.rpartition(".")[2]) and queue == queue.lower()
    if "/" not in other and other != name:
        try:
            assert queue_of("root.peloton", f"/{other}") != queue
        except Unmappable:
            return


def test_each_kind_has_a_maximum() -> None:
    tags = quota_tags((1.5, 0.0, 10.0, 0.0), (4.0, 0.0, 100.0, 1e30))
    most = json.loads(tags["namespace.resourcequota"])["resources"]
    assert most == {
        "vcore": {"value": 4_000}, "gpu": {"value": 0}, "memory": {"value": 100 * 2**20}, "disk": {"value": 2**62},
    }  # fmt: skip
    least = json.loads(tags["namespace.resourceguaranteed"])["resources"]
    assert least == {"vcore": {"value": 1_500}, "memory": {"value": 10 * 2**20}}


@given(amounts, amounts)
def test_a_guarantee_is_at_most_the_maximum(reservation: tuple[float, ...], limit: tuple[float, ...]) -> None:
    tags = quota_tags(reservation, limit)  # type: ignore[arg-type]
    most = json.loads(tags["namespace.resourcequota"])["resources"]
    least = json.loads(tags.get("namespace.resourceguaranteed", '{"resources": {}}'))["resources"]
    assert all(one["value"] <= most[name]["value"] for name, one in least.items())


@given(amounts, st.booleans())
def test_what_a_node_has_room_for_its_host_has(resource: tuple[float, ...], revocable: bool) -> None:
    """Of a node that has just what the task asks for."""
    task = Task("t", "t-1", resource, revocable=revocable)  # type: ignore[arg-type]
    asked = ask_amounts(task.resource, revocable)
    node = {"id": "n", "capacity": asked, "occupied": {}, "attributes": {"b": "2", "a": "1"}, "status": "Schedulable"}
    host = host_of_node(node, (1, 2))
    assert covers(host.room, need(task))
    assert [one.key for one in host.labels] == ["a", "b"] and not host.draining


def test_gpus_are_devices_as_those_of_an_rm() -> None:
    """Only vcore is in thousandths: a node that reports 8 has eight devices for both."""
    assert ask_amounts((0.5, 0.5, 0.0, 0.0), False) == {"vcore": 500, "gpu": 1}
    assert ask_amounts((1.0, 2.0, 0.0, 0.0), False) == {"vcore": 1_000, "gpu": 2}
    most = json.loads(quota_tags((0.0, 1.0, 0.0, 0.0), (4.0, 2.5, 0.0, 0.0))["namespace.resourcequota"])["resources"]
    assert most["gpu"] == {"value": 2}
    node = {"id": "n", "capacity": {"gpu": 8}, "occupied": {}, "attributes": {}, "status": "Schedulable"}
    assert host_of_node(node, (0, 0)).capacity == (0.0, 8.0, 0.0, 0.0)


def test_what_an_rm_uses_itself_is_no_room() -> None:
    node = {
        "id": "n", "capacity": {"vcore": 4_000, "slack.vcore": 500}, "occupied": {"vcore": 1_000, "memory": 5},
        "attributes": {}, "status": "Draining",
    }  # fmt: skip
    host = host_of_node(node, (0, 0))
    assert (host.capacity, host.slack_cpu, host.draining) == ((3.0, 0.0, 0.0, 0.0), 0.5, True)
