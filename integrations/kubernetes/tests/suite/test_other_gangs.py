"""Gangs of Kueue and of Volcano on a real API server, from manifests that nobody has touched."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from integrations.kubernetes.tests.cluster import WITHIN_S, Cluster
from integrations.kubernetes.tests.suite.modes import Mode
from integrations.kubernetes.tests.suite.test_gangs import all_placeholders_run, all_run, group, member, placeholders
from remuda.embedded import NatsServer
from remuda_kubernetes.api.client import Conflict, NotFound

GROUP: Final = "scheduling.volcano.sh"
NAMES: Final = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"podgroups.{GROUP}"},
    "spec": {
        "group": GROUP, "names": NAMES, "scope": "Namespaced",
        "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANY}}],
    },
}  # fmt: skip


async def test_a_pod_group_of_kueue_comes_together(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        labels = {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/queue-name": "root.default"}
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        for number in range(3):
            await it.create(mode.pod(f"w{number}", app="", cpu="1", labels=labels, annotations=annotations))
        await it.until(lambda pods: all_placeholders_run(pods, 2) or len(placeholders(pods)) == 3)
        await it.add_nodes("n2", cpu="2")
        await all_run(it, "w0", "w1", "w2")
        await it.until(lambda pods: not placeholders(pods))
        await it.told("GangReservationComplete", "w0")


async def test_a_group_of_volcano_is_as_large_as_its_pod_group_says(mode: Mode, server: NatsServer) -> None:
    await install_volcano(mode, server, "train", 2)
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="4")
        annotations = {"scheduling.k8s.io/group-name": "train", "scheduling.volcano.sh/queue-name": "root.default"}
        for number in range(2):
            await it.create(mode.pod(f"w{number}", app="", cpu="1", annotations=annotations))
        await all_run(it, "w0", "w1")
        await it.told("CreatingPlaceholders", "w0")


async def test_a_namespace_moves_with_the_gangs_of_three_schedulers(mode: Mode, server: NatsServer) -> None:
    """YuniKorn's, Kueue's and Volcano's, side by side, each with its own application and gang."""
    await install_volcano(mode, server, "simulate", 2)
    queue = "root.default"
    of_kueue = {"kueue.x-k8s.io/pod-group-name": "learn", "kueue.x-k8s.io/queue-name": queue}
    of_volcano = {"scheduling.k8s.io/group-name": "simulate", "scheduling.volcano.sh/queue-name": queue}
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        for number in range(2):
            await it.create(member(mode, f"etl-{number}", [group("workers", 2)], "workers", app="etl"))
            size = {"kueue.x-k8s.io/pod-group-total-count": "2"}
            await it.create(mode.pod(f"learn-{number}", app="", cpu="1", labels=of_kueue, annotations=size))
            await it.create(mode.pod(f"simulate-{number}", app="", cpu="1", annotations=of_volcano))
        await all_run(it, *(f"{name}-{number}" for name in ("etl", "learn", "simulate") for number in range(2)))
        await it.until(lambda pods: not placeholders(pods))
        for name in ("etl-0", "learn-0", "simulate-0"):
            await it.told("GangReservationComplete", name)


async def install_volcano(mode: Mode, server: NatsServer, name: str, members: int) -> None:
    """A PodGroup of this name, in a cluster that Volcano is installed in."""
    made = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    async with mode.cluster(server.url) as it:
        with suppress(Conflict):  # another test has made them
            await it.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        path = f"/apis/{GROUP}/v1beta1/namespaces/default/podgroups"
        await until_created(it, path, {**made, "spec": {"minMember": members}})


async def until_created(it: Cluster, path: str, manifest: dict[str, Any]) -> None:
    """The API server serves a new kind some time after its definition."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(NotFound):
                with suppress(Conflict):
                    await it.client.create(path, manifest)
                return
            await asyncio.sleep(0.1)
