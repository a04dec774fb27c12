"""The page for people who run Kubernetes, word for word, on a real control plane with fake kubelets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integrations.kubernetes.tests.control_plane.kubelet import Kubelet
from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs
from integrations.kubernetes.tests.manifests import node
from remuda_kubernetes.api.client import Client
from tests.system.doors import DOORS, play

pytestmark = [
    pytest.mark.skipif(programs() is None, reason="no control plane: run `make kubernetes`"),
    pytest.mark.timeout(600),
]


async def test_the_page_works_to_the_letter(tmp_path: Path) -> None:
    with ControlPlane(tmp_path / "plane") as plane:
        async with Client(plane.credentials()) as client:
            await client.create("/api/v1/nodes", node("n1"))
            kubelet = asyncio.create_task(Kubelet(client).run())
            environment = {"KUBECONFIG": str(plane.kubeconfig())}
            try:
                await asyncio.to_thread(play, DOORS / "kubernetes.md", tmp_path, environment)
            finally:
                kubelet.cancel()
