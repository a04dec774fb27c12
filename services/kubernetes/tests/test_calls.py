"""Calls of the Kubernetes API: what answers mean, on a scripted API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from remuda_kubernetes.api.errors import Conflict
from remuda_kubernetes.metrics import Places
from remuda_kubernetes.shell.calls import Calls
from remuda_kubernetes.shell.traces import Traces
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import CreatePlaceholder
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.task_groups import placeholder_pod, task_groups_of
from tests.kubernetes.objects import pod

GROUPS = {names.TASK_GROUPS: json.dumps([{"name": "g", "minMember": 1, "minResource": {"cpu": "1"}}])}


class Taken:
    """An API server where the name of a new pod is taken by `there`."""

    def __init__(self, there: dict[str, Any]) -> None:
        self._there = there
        self.is_asked = asyncio.Event()

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        raise Conflict("exists", 409)

    async def get(self, path: str, kind: type[Any]) -> Any:
        self.is_asked.set()
        return msgspec.convert(self._there, kind)


def owned_by(manifest: dict[str, Any], uid: str) -> dict[str, Any]:
    owner = manifest["metadata"]["ownerReferences"][0] | {"uid": uid}
    return manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}}


@pytest.mark.parametrize(("owner", "failures"), [("uid-driver", 0), ("uid-another", 1)])
async def test_placeholder_that_exists_is_created_if_it_is_our_own(owner: str, failures: int) -> None:
    driver = pod("driver", annotations=GROUPS)
    (group,) = task_groups_of(driver)
    manifest = placeholder_pod("app", "", group, driver, "suffix", "pause")
    reported: list[Callable[[Shim], None]] = []
    server = Taken(owned_by(manifest, owner))
    calls = Calls(server, "here", reported.append, Traces(), Places())  # type: ignore[arg-type]
    calls.add([CreatePlaceholder("default.app", manifest)])
    running = asyncio.create_task(calls.run())
    await server.is_asked.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert len(reported) == failures
