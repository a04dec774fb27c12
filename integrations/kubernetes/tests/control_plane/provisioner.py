"""A provisioner for tests: makes the volume of each late claim of its classes, for the node that was selected.

It keeps to the rules of the real ones: the controller of volumes hands a claim over by an annotation, and a provisioner
that cannot make a volume for the node takes the annotation of the scheduler away.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from integrations.kubernetes.tests.manifests import local_volume
from remuda_kubernetes.api.client import CLAIMS, MERGE_PATCH, Client, Conflict, NotFound
from remuda_kubernetes.api.objects import SELECTED_NODE, Claim
from remuda_kubernetes.api.reflector import Reflector

NAME = "test.remuda.io/provisioner"
HANDED_OVER = "volume.beta.kubernetes.io/storage-provisioner"


class Provisioner:
    """`run()` runs until cancelled. `full`: nodes for which it makes no volume. `may_make`: it waits for it.
    `asked`: the nodes that were selected, in order."""

    def __init__(self, client: Client, *full: str) -> None:
        self._client = client
        self.full = full
        self._work: set[asyncio.Task[None]] = set()
        self.may_make = asyncio.Event()
        self.may_make.set()
        self.asked: list[str] = []

    async def run(self) -> None:
        await Reflector(self._client, CLAIMS, self._changed, lambda claim: None).run()

    def _changed(self, claim: Claim) -> None:
        is_ours = claim.metadata.annotation(HANDED_OVER) == NAME
        if is_ours and claim.selected_node and not claim.spec.volume_name:
            task = asyncio.get_running_loop().create_task(self._handle(claim))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _handle(self, claim: Claim) -> None:
        self.asked.append(claim.selected_node)
        await self.may_make.wait()
        namespace, name = claim.key
        with suppress(NotFound, Conflict):
            if claim.selected_node in self.full:
                path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
                await self._client.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}}, MERGE_PATCH)
                return
            reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
            volume = local_volume(f"pvc-{claim.metadata.uid}", claim.storage_class, claim.selected_node)
            volume["spec"] |= {"claimRef": {**reference, "uid": claim.metadata.uid}}
            await self._client.create("/api/v1/persistentvolumes", volume)
