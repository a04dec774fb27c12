"""A fake kubelet for all nodes: pods that are bound run, pods that are deleted go.

A pod with the annotation `test/ends-after: SECONDS` succeeds after that time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from remuda_kubernetes.api.client import PODS, ApiError, Client, Conflict, NotFound
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.reflector import Reflector

ENDS_AFTER = "test/ends-after"


class Kubelet:
    """`run()` runs until cancelled."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._work: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await Reflector(self._client, PODS, self._changed, lambda pod: None).run()

    def _changed(self, pod: Pod) -> None:
        if pod.spec.node_name:
            task = asyncio.get_running_loop().create_task(self._handle(pod))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _handle(self, pod: Pod) -> None:
        with suppress(NotFound, Conflict):
            if pod.metadata.deletion_timestamp is not None:
                await self._client.delete_pod(pod.metadata.namespace, pod.metadata.name, pod.uid, grace_s=0)
            elif pod.status.phase == "Pending":
                await self._phase(pod, "Running", pod.metadata.resource_version)  # else its next change is handled
                ends_after = pod.metadata.annotation(ENDS_AFTER)
                if ends_after:
                    await asyncio.sleep(float(ends_after))
                    await self._phase(pod, "Succeeded")

    async def _phase(self, pod: Pod, phase: str, version: str = "") -> None:
        """`version`: of the pod, which has to be the newest. A pod that a test has ended does not run again."""
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/status"
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        try:
            expected = {"metadata": {"resourceVersion": version}} if version else {}
            await self._client.patch(path, expected | {"status": {"phase": phase, "conditions": ready}})
        except (NotFound, Conflict):
            raise
        except ApiError as error:
            raise RuntimeError(f"{pod.key}: {error}") from None
