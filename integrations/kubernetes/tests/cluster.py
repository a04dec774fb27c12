"""A Kubernetes cluster under test, with remuda as its scheduler: a real control plane, fake kubelets, real services."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.control_plane.kubelet import Kubelet
from integrations.kubernetes.tests.manifests import node
from remuda_bus.nats import NatsBus, connect
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_kubernetes.api.client import MERGE_PATCH, NODES, PODS, Away, Client, Conflict, NotFound
from remuda_kubernetes.api.objects import Node, Pod
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell import main as kubernetes_main
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.errors import RequestRefused
from remuda_operations.queries.rows import Queue, QueuesPage, Rows
from tests.system.running import around_the_core, running

WITHIN_S = 80.0  # in plugin mode, a pod is kept off a node for a minute where the default scheduler did not bind it


class Cluster:
    """Calls of a user and of a test."""

    def __init__(self, client: Client, plane: Plane, url: str, settings: dict[str, Any]) -> None:
        self.client = client
        self.plane = plane
        self.url = url
        self.namespace = "default"
        self._settings = settings
        self._fronts: list[AsyncExitStack] = []

    # As a user

    async def add_nodes(self, *names: str, **of: str) -> None:
        for name in names:
            await self.client.create("/api/v1/nodes", node(name, **of))
            if self.plane.is_existing:  # its API server may add taints to new nodes
                await self.client.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE_PATCH)

    async def create(self, manifest: dict[str, Any], kind: str = "pods", group: str = "/api/v1") -> None:
        await self.client.create(f"{group}/namespaces/{self.namespace}/{kind}", manifest)

    async def create_namespace(self, name: str, **annotations: str) -> None:
        keyed = {f"yunikorn.apache.org/{key.replace('_', '.')}": value for key, value in annotations.items()}
        with suppress(Conflict):  # of an earlier run
            await self.client.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": keyed}})
            if self.plane.is_existing:  # pods need one, and its controller takes its time
                account = {"metadata": {"name": "default"}}
                await self.client.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)

    async def delete(self, name: str) -> None:
        pod = await self.pod(name)
        await self.client.delete_pod(self.namespace, name, pod.uid)

    async def remove_pods(self) -> None:
        """All of them, at once."""
        await _remove_pods(self.client)

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        await self.client.patch(f"/api/v1/namespaces/{self.namespace}/pods/{name}/status", {"status": {"phase": phase}})

    async def patch_node(self, name: str, patch: dict[str, Any], part: str = "") -> None:
        await self.client.patch(f"/api/v1/nodes/{name}{part}", patch)

    # As an observer

    async def pod(self, name: str) -> Pod:
        content = await self.client.call("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return msgspec.json.decode(content, type=Pod)

    async def quality_of_service(self, name: str) -> str:
        """The class that the API server gives a pod by its requests."""
        content = await self.client.call("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return str(msgspec.json.decode(content)["status"]["qosClass"])

    async def pods(self) -> dict[str, Pod]:
        found, _ = await self.client.list(PODS)
        return {one.metadata.name: one for one in found}

    async def nodes(self) -> dict[str, Node]:
        found, _ = await self.client.list(NODES)
        return {one.metadata.name: one for one in found}

    async def until(self, holds: Callable[[dict[str, Pod]], bool], within_s: float = WITHIN_S) -> dict[str, Pod]:
        """The pods, once they are as they should be."""
        found: dict[str, Pod] = {}
        try:
            async with asyncio.timeout(within_s):
                while True:
                    found = await self.pods()
                    if holds(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            told = [
                f"{name}: {pod.status.phase} {pod.spec.node_name or '-'} {condition(pod)}"
                for name, pod in found.items()
            ]
            raise TimeoutError("\n".join(told)) from None

    async def bound(self, *names: str) -> dict[str, str]:
        """The nodes of these pods, once each has one."""
        found = await self.until(lambda pods: all(name in pods and pods[name].spec.node_name for name in names))
        return {name: found[name].spec.node_name for name in names}

    async def waits(self, name: str, reason: str) -> str:
        """The message of the pod's condition, once the condition gives this reason."""
        found = await self.until(lambda pods: condition(pods[name]).startswith(f"{reason}:"))
        assert not found[name].spec.node_name
        return condition(found[name]).partition(": ")[2]

    async def told(self, reason: str, name: str = "") -> None:
        """Waits for an event with this reason, on the object of this name or on any."""
        async with asyncio.timeout(WITHIN_S):
            while not await self.reported(reason, name):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def reported(self, reason: str, name: str) -> bool:
        """Whether there is an event with this reason on the object of this name. Empty: on any."""
        return bool(await self._events(reason, name))

    async def counted(self, reason: str, name: str) -> int:
        """How often an event with this reason on this object has happened, once it is counted."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for event in await self._events(reason, name):
                    if event.get("series"):
                        return int(event["series"]["count"])
                await asyncio.sleep(0.05)

    async def _events(self, reason: str, name: str) -> list[dict[str, Any]]:
        content = await self.client.call("GET", "/apis/events.k8s.io/v1/events")
        events: list[dict[str, Any]] = msgspec.json.decode(content)["items"]
        return [one for one in events if one["reason"] == reason and name in ("", one["regarding"]["name"])]

    # The scheduler

    async def explained(self, name: str) -> str:
        """What `remuda explain pod` prints, in one line."""
        command = ["explain", "pod", f"{self.namespace}/{name}", "--nats", self.url]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "remuda", *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return " ".join(output.decode().split())

    async def rows(self, kind: str, page_of: type[Any] = Rows) -> list[dict[str, Any]]:
        """The rows of a query to the core."""
        bus = await connect(self.url, "test", timeout_s=5)
        try:
            return [row async for page in pages_of(bus, kind, page_of, rm="kubernetes") for row in getattr(page, kind)]
        finally:
            await bus.close()

    async def until_rows(self, kind: str, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The rows, once they are as they should be."""
        found: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    with suppress(RequestRefused):  # not registered yet
                        found = await self.rows(kind)
                        if holds(found):
                            return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{kind}: {found}") from None

    async def queue(self, path: str) -> Queue:
        bus = await connect(self.url, "test", timeout_s=5)
        try:
            pages = [page async for page in pages_of(bus, "queues", QueuesPage, rm="kubernetes")]
            return next(queue for page in pages for queue in page.queues if queue.path == path)
        finally:
            await bus.close()

    @contextmanager
    def no_bindings(self) -> Iterator[None]:
        """Bindings of front ends of this process do not reach the API server."""

        async def lost(*_: object) -> None:
            raise Away("lost", 0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "bind", lost)
            yield

    # The front end

    async def start_front(self, **settings: Any) -> None:
        """Another instance of the front end. `settings`: beside those of all."""
        settings = self._settings | settings
        stack = AsyncExitStack()
        self._fronts.append(stack)
        kubeconfig = self.plane.kubeconfig("remuda")  # with the rights of its service account

        async def main(bus: NatsBus, _: object) -> None:
            await kubernetes_main(bus, KubernetesSettings(nats_url=self.url, kubeconfig=kubeconfig, **settings))

        await stack.enter_async_context(running(self.url, "kubernetes", main))  # type: ignore[arg-type]

    async def stop_front(self) -> None:
        """The oldest instance."""
        await self._fronts.pop(0).aclose()

    async def stop_fronts(self) -> None:
        while self._fronts:
            await self.stop_front()


def condition(pod: Pod) -> str:
    """`reason: message` of the condition PodScheduled, while it is false."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False":
            return f"{one.reason}: {one.message}"
    return ""


@asynccontextmanager
async def cluster(plane: Plane, url: str, queues: Path | None = None, **settings: Any) -> AsyncIterator[Cluster]:
    """An empty cluster whose scheduler is remuda. It is empty again in the end."""
    async with (
        around_the_core(url, queues),
        running(url, "core", core_main, CoreSettings),
        Client(plane.credentials()) as client,
    ):
        kubelet = asyncio.create_task(Kubelet(client).run())
        under_test = Cluster(client, plane, url, settings)
        try:
            await under_test.start_front()
            yield under_test
        finally:
            await under_test.stop_fronts()
            await _clean(client)
            kubelet.cancel()
            await asyncio.wait([kubelet])


async def _remove_pods(client: Client) -> None:
    for pod in (await client.list(PODS))[0]:
        with suppress(NotFound):
            await client.delete_pod(pod.metadata.namespace, pod.metadata.name, pod.uid, grace_s=0)


async def _clean(client: Client) -> None:
    for kind in (
        "batch/v1/namespaces/default/jobs",
        "apps/v1/namespaces/default/daemonsets",
        "events.k8s.io/v1/namespaces/default/events",
    ):
        await client.call("DELETE", f"/apis/{kind}", {"propagationPolicy": "Background"})
    await _remove_pods(client)
    for one in (await client.list(NODES))[0]:
        await client.call("DELETE", f"/api/v1/nodes/{one.metadata.name}")
