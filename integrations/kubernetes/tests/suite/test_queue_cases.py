"""Cases of queues, in both modes: order, preemption, fairness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from integrations.kubernetes.tests.cluster import Cluster
from integrations.kubernetes.tests.suite.modes import Mode, until_explained
from integrations.kubernetes.tests.suite.test_gangs import group, member
from remuda.embedded import NatsServer

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NOTHING = "nothing can be preempted"
HEAD = "partitions:\n- name: default\n  preemption: {enabled: true}\n"
QUICK = "properties: {preemption.delay: 1s}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queues.yaml"


@asynccontextmanager
async def priorities(it: Cluster, **values: int) -> AsyncIterator[None]:
    for name, value in values.items():
        await it.client.create(CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        yield
    finally:
        for name in values:
            await it.client.call("DELETE", f"{CLASSES}/{name}")


# Order

STATIC = "queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: 1}}}]}]"
MADE = (
    "placementrules: [{name: provided, create: true}]\n  "
    "queues: [{name: root, submitacl: '*', queues: [{name: m, parent: true, resources: {max: {vcore: 1}}}]}]"
)


@pytest.mark.parametrize(("queues", "queue"), [(STATIC, "root.a"), (MADE, "root.m.made")], ids=["static", "made"])
async def test_applications_go_in_the_order_of_their_priority(
    mode: Mode, server: NatsServer, file: Path, queues: str, queue: str
) -> None:
    """priority_scheduling 1, 2."""
    file.write_text(f"{HEAD}  {queues}\n")
    async with mode.cluster(server.url, file) as it, priorities(it, low=-10, normal=0, high=10):
        await it.add_nodes("n1")
        await it.create(mode.pod("first", app="first", queue=queue, cpu="1"))
        await it.bound("first")
        for name in ("low", "normal", "high"):
            await it.create(mode.pod(name, app=name, queue=queue, cpu="1", priorityClassName=name))
        for name in ("low", "normal", "high"):
            await mode.why(it, name, "root.")
        for ends, starts, left in (("first", "high", ("normal", "low")), ("high", "normal", ("low",))):
            await it.end(ends)
            await it.bound(starts)
            pods = await it.pods()
            assert not [name for name in left if pods[name].spec.node_name]


async def test_offset_of_a_queue_counts_as_priority(mode: Mode, server: NatsServer, file: Path) -> None:
    """priority_scheduling 3."""
    leaves = ", ".join(
        f"{{name: {name}, properties: {{priority.offset: '{offset}'}}}}" for name, offset in (("low", -5), ("high", 5))
    )
    file.write_text(
        f"{HEAD}  queues: [{{name: root, submitacl: '*', queues: [{{name: p, resources: {{max: {{vcore: 1}}}}, "
        f"queues: [{leaves}]}}]}}]\n"
    )
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("first", app="first", queue="root.p.low", cpu="1"))
        await it.bound("first")
        for name in ("low", "high"):
            await it.create(mode.pod(name, app=name, queue=f"root.p.{name}", cpu="1"))
            await mode.why(it, name, "root.p")
        await it.end("first")
        await it.bound("high")
        assert not (await it.pod("low")).spec.node_name


async def test_gangs_go_in_the_order_of_their_priority(mode: Mode, server: NatsServer, file: Path) -> None:
    """priority_scheduling 4."""
    file.write_text(f"{HEAD}  {STATIC.replace('vcore: 1', 'vcore: 2')}\n")
    async with mode.cluster(server.url, file) as it, priorities(it, low=-10, normal=0, high=10):
        await it.add_nodes("n1")
        await it.create(mode.pod("first", app="first", queue="root.a", cpu="2"))
        await it.bound("first")
        for name in ("low", "normal", "high"):
            for number in (1, 2):
                of = {"app": name, "queue": "root.a", "priorityClassName": name}
                await it.create(member(mode, f"{name}-{number}", [group("g", 2)], "g", **of))
        await it.until_rows("asks", lambda rows: len(rows) == 6)  # the placeholders of all
        await it.end("first")
        waiting = ["low", "normal", "high"]
        while waiting:
            name = waiting.pop()
            await it.bound(f"{name}-1", f"{name}-2")
            pods = await it.pods()
            assert not [one for one in waiting if pods[f"{one}-1"].spec.node_name]
            for number in (1, 2):
                await it.end(f"{name}-{number}")


async def test_application_with_the_lowest_share_is_next(mode: Mode, server: NatsServer, file: Path) -> None:
    """resource_fairness 1."""
    file.write_text(
        f"{HEAD}  queues: [{{name: root, submitacl: '*', queues: [{{name: a, resources: {{max: {{vcore: 4}}}}, "
        "properties: {application.sort.policy: fair}}]}]\n"
    )
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="8")
        for name in ("x1", "x2", "x3", "y1"):
            await it.create(mode.pod(name, app=name[0], queue="root.a", cpu="1"))
        await it.bound("x1", "x2", "x3", "y1")
        for name in ("x4", "y2"):
            await it.create(mode.pod(name, app=name[0], queue="root.a", cpu="1"))
            await mode.why(it, name, "root.a")
        await it.end("x1")
        await it.bound("y2")
        assert not (await it.pod("x4")).spec.node_name


async def test_pods_go_to_the_fullest_node(mode: Mode, server: NatsServer, file: Path) -> None:
    """bin_packing 1."""
    file.write_text(
        f"{HEAD}  nodesortpolicy: {{type: binpacking}}\n"
        "  queues: [{name: root, submitacl: '*', queues: [{name: a}]}]\n"
    )
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", "n2", "n3")
        on_n2 = {"kubernetes.io/hostname": "n2"}
        await it.create(mode.pod("seed", app="app", queue="root.a", cpu="1", memory="1Gi", nodeSelector=on_n2))
        await it.bound("seed")
        for name in ("p1", "p2", "p3"):
            await it.create(mode.pod(name, app="app", queue="root.a", cpu="1", memory="1Gi"))
            assert await it.bound(name) == {name: "n2"}


# Preemption


def guaranteed(more_of_a: str = "", b: str = "") -> str:
    return (
        f"{HEAD}  queues: [{{name: root, submitacl: '*', queues: ["
        f"{{name: a{more_of_a}}}, {{name: b, resources: {{guaranteed: {{vcore: 2}}}}, {QUICK}{b}}}]}}]\n"
    )


async def test_no_victim_in_a_queue_below_its_guarantee(mode: Mode, server: NatsServer, file: Path) -> None:
    """preemption 2."""
    file.write_text(guaranteed(", resources: {guaranteed: {vcore: 2}}"))
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="2")
        for name in ("a1", "a2"):
            await it.create(mode.pod(name, app="a", queue="root.a", cpu="1"))
        await it.bound("a1", "a2")
        await it.create(mode.pod("b1", app="b", queue="root.b", cpu="1"))
        await mode.why(it, "b1")
        await until_explained(it, "b1", NOTHING)
        assert {"a1", "a2"} <= set(await it.pods())


async def test_fence_keeps_victims_in(mode: Mode, server: NatsServer, file: Path) -> None:
    """preemption 3: asks below a fence preempt nothing outside."""
    file.write_text(
        f"{HEAD}  queues: [{{name: root, submitacl: '*', queues: [{{name: a}}, {{name: f, "
        f"properties: {{preemption.policy: fence}}, queues: [{{name: b, resources: {{guaranteed: {{vcore: 2}}}}, "
        f"{QUICK}}}]}}]}}]\n"
    )
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="2")
        for name in ("a1", "a2"):
            await it.create(mode.pod(name, app="a", queue="root.a", cpu="1"))
        await it.bound("a1", "a2")
        await it.create(mode.pod("b1", app="b", queue="root.f.b", cpu="1"))
        await mode.why(it, "b1")
        await until_explained(it, "b1", NOTHING)
        assert {"a1", "a2"} <= set(await it.pods())


async def test_victims_have_no_higher_priority(mode: Mode, server: NatsServer, file: Path) -> None:
    """preemption 4."""
    file.write_text(guaranteed())
    async with mode.cluster(server.url, file) as it, priorities(it, above=100, between=50):
        await it.add_nodes("n1", cpu="2")
        await it.create(mode.pod("a1", app="a1", queue="root.a", cpu="1"))
        await it.create(mode.pod("a2", app="a2", queue="root.a", cpu="1", priorityClassName="above"))
        await it.bound("a1", "a2")
        await it.create(mode.pod("b1", app="b", queue="root.b", cpu="1", priorityClassName="between"))
        await it.bound("b1")
        assert set(await it.pods()) == {"a2", "b1"}


@pytest.mark.parametrize("opted_out", ["a1", "a2"])
async def test_pods_that_opted_out_are_preempted_last(
    mode: Mode, server: NatsServer, file: Path, opted_out: str
) -> None:
    """preemption 5."""
    file.write_text(guaranteed())
    never = {"yunikorn.apache.org/allow-preemption": "false"}
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="2")
        for name in ("a1", "a2"):
            annotations = never if name == opted_out else {}
            await it.create(mode.pod(name, app=name, queue="root.a", cpu="1", annotations=annotations))
            await it.bound(name)
        await it.create(mode.pod("b1", app="b", queue="root.b", cpu="1"))
        await it.bound("b1")
        assert set(await it.pods()) == {opted_out, "b1"}
