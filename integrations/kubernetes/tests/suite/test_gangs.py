"""Gangs with real placeholder pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from integrations.kubernetes.tests.cluster import Cluster
from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer
from remuda_kubernetes.api.objects import Pod

DOMAIN = "yunikorn.apache.org/"
JOBS = "/apis/batch/v1"
OWNER = "owner-of-a-pod"


def member(
    mode: Mode, name: str, groups: list[dict[str, Any]], group: str, policy: str = "", **of: Any
) -> dict[str, Any]:
    """A pod of a gang. `of`: as for a pod."""
    annotations = {
        f"{DOMAIN}task-group-name": group,
        f"{DOMAIN}task-groups": json.dumps(groups),
        f"{DOMAIN}schedulingPolicyParameters": policy,
    }
    by_default = {"app": "gang", "queue": "root.default", "cpu": "1"}
    return mode.pod(name, **by_default | of, annotations=annotations)


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


async def test_real_pods_of_each_group_stand_where_its_placeholders_stood(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 2: only the placeholders have to be on a certain node."""
    async with mode.cluster(server.url) as it:
        nodes = {"a": "n1", "b": "n2", "c": "n3"}
        await it.add_nodes(*nodes.values(), cpu="2")
        groups = [group(name, 2, nodeSelector={"kubernetes.io/hostname": node}) for name, node in nodes.items()]
        members = {f"{number}-{name}": name for number in (1, 2) for name in nodes}
        for pod, of in members.items():
            await it.create(member(mode, pod, groups, of))
        assert await it.bound(*members) == {pod: nodes[of] for pod, of in members.items()}
        await it.until(lambda pods: not placeholders(pods))


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
    """gang_scheduling 8, 9, 10: it is deleted, without and with an owner of its own; or its job is."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="3")
        groups = [group("workers", 3)]
        await it.create(member(mode, "alone", groups, "workers", app="alone"))
        owned = member(mode, "owned", groups, "workers", app="owned")
        owned["metadata"]["ownerReferences"] = [await owner(it)]
        await it.create(owned)
        template = member(mode, "", groups, "workers", app="job", restartPolicy="Never")
        del template["metadata"]["name"]
        job = {"metadata": {"name": "job"}, "spec": {"parallelism": 2, "completions": 2, "template": template}}
        await it.create(job, "jobs", JOBS)
        await it.until(lambda pods: len(placeholders(pods)) == 9 and len(pods) == 13)
        await it.until_rows("allocations", lambda rows: len(rows) == 3)
        await it.client.call("DELETE", f"{JOBS}/namespaces/default/jobs/job", {"propagationPolicy": "Background"})
        for name in ("alone", "owned"):
            await it.delete(name)
        await it.until(lambda pods: not pods)
        await it.until_rows("allocations", lambda rows: not rows)
        assert not await it.rows("asks")
        await it.create(mode.pod("other", app="other", cpu="3"))
        await it.bound("other")
        await it.client.call("DELETE", f"/api/v1/namespaces/default/configmaps/{OWNER}")


async def owner(it: Cluster) -> dict[str, Any]:
    """A reference to an object that is no controller."""
    path = "/api/v1/namespaces/default/configmaps"
    made = json.loads(await it.client.create(path, {"metadata": {"name": OWNER}}))
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": OWNER, "uid": made["metadata"]["uid"]}


async def test_placeholders_that_a_user_deletes_are_booked_no_more(mode: Mode, server: NatsServer) -> None:
    """gang_scheduling 7: the gang does not become complete any more, and fails when its time is over."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        on_n1 = {"kubernetes.io/hostname": "n1"}
        groups = [group("lost", 2, nodeSelector=on_n1), group("kept", 1), group("large", 1, cpu="64")]
        policy = "placeholderTimeoutInSeconds=4 gangSchedulingStyle=Hard"
        await it.create(member(mode, "driver", groups, "kept", policy))
        pods = await it.until(lambda pods: sum(bool(one.spec.node_name) for one in placeholders(pods)) == 3)
        assert (await it.queue("root.default")).allocated == {"vcore": 3000, "pods": 3}
        for one in placeholders(pods):
            if "lost" in one.metadata.name:
                await it.delete(one.metadata.name)
        left = {"vcore": 1000, "pods": 1}
        (application,) = await it.until_rows("applications", lambda rows: rows[0]["allocated_placeholder"] == left)
        assert application["state"] == "Accepted"
        assert [row["allocated"] for row in await it.rows("nodes") if row["allocated"]] == [left]
        assert (await it.queue("root.default")).allocated == left
        pods = await it.until(lambda pods: pods["driver"].status.phase == "Failed")
        assert pods["driver"].status.reason == "ResourceReservationTimeout"


QUOTA = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: q, resources: {max: {vcore: 2}}}]}]
"""


async def test_gang_under_a_quota_is_next_in_its_turn(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    """gang_scheduling 6: three applications, first in, first out; the second one is a gang."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUOTA)
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        for name in ("a1", "a2"):
            await it.create(mode.pod(name, app="a", queue="root.q", cpu="1"))
        await it.bound("a1", "a2")
        gang = [group("g", 2)]
        for name in ("b1", "b2"):
            await it.create(member(mode, name, gang, "g", app="b", queue="root.q"))
        await it.until(lambda pods: len(placeholders(pods)) == 2)
        await it.until_rows("asks", lambda rows: len(rows) == 2)
        await it.create(mode.pod("c", app="c", queue="root.q", cpu="1"))
        await mode.why(it, "c", "root.q")
        await it.end("a1")
        await it.until(lambda pods: any(one.spec.node_name for one in placeholders(pods)))
        pods = await it.pods()
        assert not any(pods[name].spec.node_name for name in ("b1", "b2", "c"))
        await it.end("a2")
        await it.bound("b1", "b2")
        assert not (await it.pod("c")).spec.node_name
        await it.end("b1")
        await it.bound("c")


async def test_pending_gang_survives_a_restart(mode: Mode, server: NatsServer) -> None:
    """recovery_and_restart 4, gang_scheduling 12: the originator is the same, also if it is not the first by name."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        groups = [group("workers", 3)]
        await it.create(member(mode, "driver", groups, "workers"))
        await it.until(lambda pods: len(placeholders(pods)) == 3)
        await it.create(member(mode, "another", groups, "workers"))
        before = await it.until(lambda pods: sum(bool(one.spec.node_name) for one in placeholders(pods)) == 2)
        await it.stop_front()
        await it.start_front()
        await it.add_nodes("n2", cpu="2")
        after = await all_run(it, "driver", "another")
        assert {one.uid for one in placeholders(after)} <= {one.uid for one in placeholders(before)}
        rows = await it.rows("allocations")
        assert [row["key"] for row in rows if row["originator"]] == [after["driver"].uid]


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
