"""Gangs with real placeholder pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from remuda.embedded import NatsServer
from remuda_kubernetes.api.objects import Pod
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.suite.modes import Mode

DOMAIN = "yunikorn.apache.org/"


def member(
    mode: Mode, name: str, groups: list[dict[str, Any]], group: str, policy: str = "", cpu: str = "1"
) -> dict[str, Any]:
    annotations = {
        f"{DOMAIN}task-group-name": group,
        f"{DOMAIN}task-groups": json.dumps(groups),
        f"{DOMAIN}schedulingPolicyParameters": policy,
    }
    return mode.pod(name, app="gang", queue="root.default", cpu=cpu, annotations=annotations)


def group(name: str, members: int, cpu: str = "1", **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": members, "minResource": {"cpu": cpu}, **more}


def placeholders(pods: dict[str, Pod]) -> list[Pod]:
    return [one for name, one in pods.items() if name.startswith("tg-")]


def all_placeholders_run(pods: dict[str, Pod], count: int) -> bool:
    found = placeholders(pods)
    return len(found) == count and all(one.status.phase == "Running" for one in found)


async def all_run(it: Cluster, *names: str) -> dict[str, Pod]:
    return await it.until(lambda pods: all(pods[name].status.phase == "Running" for name in names))


async def test_placeholders_appear_and_real_pods_replace_them(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 1, 3."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        groups = [group("workers", 3)]
        for number in range(4):  # one more than the gang has members
            await it.create(member(mode, f"w{number}", groups, "workers"))
        await all_run(it, *(f"w{number}" for number in range(4)))
        await it.until(lambda pods: not placeholders(pods))
        await it.told("CreatingPlaceholders", "w0")
        await it.told("GangReservationComplete", "w0")


async def test_gang_that_is_not_complete_waits_as_placeholders(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(member(mode, "driver", [group("workers", 3)], "workers"))
        pods = await it.until(lambda pods: sum(bool(one.spec.node_name) for one in placeholders(pods)) == 2)
        assert len(placeholders(pods)) == 3
        assert not pods["driver"].spec.node_name
        owners = {owner.name for one in placeholders(pods) for owner in one.metadata.owner_references}
        assert owners == {"driver"}
        await it.add_nodes("n2", cpu="2")
        await all_run(it, "driver")


async def test_soft_gang_continues_without_placeholders(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 4."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        groups = [group("workers", 3)]
        await it.create(member(mode, "driver", groups, "workers", "placeholderTimeoutInSeconds=2"))
        await all_run(it, "driver")
        await it.until(lambda pods: not placeholders(pods))


async def test_hard_gang_fails(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 5."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        policy = "placeholderTimeoutInSeconds=2 gangSchedulingStyle=Hard"
        await it.create(member(mode, "driver", [group("workers", 3)], "workers", policy))
        pods = await it.until(lambda pods: pods["driver"].status.phase == "Failed")
        assert pods["driver"].status.reason == "ResourceReservationTimeout"
        await it.until(lambda pods: not placeholders(pods))


async def test_placeholders_go_with_their_originator(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 9."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(member(mode, "driver", [group("workers", 3)], "workers"))
        await it.until(lambda pods: sum(bool(one.spec.node_name) for one in placeholders(pods)) == 2)
        await it.delete("driver")
        await it.until(lambda pods: not pods)
        await it.create(mode.pod("other", app="other", cpu="2"))  # nothing is allocated any more
        await it.bound("other")


async def test_pending_gang_survives_a_restart(mode: Mode, server: NatsServer) -> None:
    """recovery_and_restart 4, gang_scheduling 12."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(member(mode, "driver", [group("workers", 3)], "workers"))
        before = await it.until(lambda pods: sum(bool(one.spec.node_name) for one in placeholders(pods)) == 2)
        await it.stop_front()
        await it.start_front()
        await it.add_nodes("n2", cpu="2")
        after = await it.until(lambda pods: pods["driver"].status.phase == "Running")
        assert {one.metadata.name for one in placeholders(after)} <= {one.metadata.name for one in placeholders(before)}


async def test_wrong_definition_is_an_event_and_no_gang(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create(member(mode, "one", [group("workers", 0)], "workers"))
        await it.bound("one")
        await it.told("TaskGroupsError", "one")


async def test_hugepages_of_a_group(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    """gang_scheduling 11: any resource."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        extended = {"cpu": "4", "memory": "8Gi", "pods": "110", "hugepages-2Mi": "64Mi"}
        await it.patch_node("n1", {"status": {"capacity": extended, "allocatable": extended}}, "/status")
        amounts = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "32Mi"}
        groups = [{"name": "g", "minMember": 1, "minResource": amounts}]
        manifest = member(mode, "huge", groups, "g")
        manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await it.create(manifest)
        await all_run(it, "huge")
