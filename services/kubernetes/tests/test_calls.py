"""Calls of the Kubernetes API: what answers mean, on a scripted API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from remuda_bus.retry import RetryPolicy
from remuda_kubernetes import limits
from remuda_kubernetes.api.errors import ApiError, Away, Conflict, error_of
from remuda_kubernetes.metrics import Places
from remuda_kubernetes.shell.calls import Calls
from remuda_kubernetes.shell.traces import Traces
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Bind, CreatePlaceholder, ReportNode
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.task_groups import placeholder_pod, task_groups_of
from remuda_proto.si.v1 import si_pb2 as si
from services.kubernetes.tests.reporting_shim import shim
from tests.kubernetes.objects import pod

ONCE = RetryPolicy(0.0, give_up_after_s=0.0)
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


class Failing:
    """An API server that answers each binding with this error."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def bind(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "is_blamed"),
    [
        (Away("not reached", 0), False),
        *((error_of(code, "no"), False) for code in (401, 409, 429, 500, 503)),
        *((error_of(code, "no"), True) for code in (403, 422)),
    ],
)
async def test_node_is_blamed_for_refused_bindings_only(
    error: ApiError, is_blamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long outage of the API server, all nodes would count as not ready."""
    monkeypatch.setattr(limits, "BINDING_RETRY", ONCE)
    it = shim("n1")
    failed = asyncio.Semaphore(0)

    def on_shim(change: Callable[[Shim], None]) -> None:
        change(it)
        failed.release()

    calls = Calls(Failing(error), "here", on_shim, Traces(), Places())  # type: ignore[arg-type]
    running = asyncio.create_task(calls.run())
    for name in ("a", "b", "c"):
        it.pod_changed(pod(name, app="app"))
        it.allocation(si.AllocationResponse(new=[si.Allocation(allocationKey=f"uid-{name}", UUID=name, nodeID="n1")]))
        calls.add([one for one in it.take() if isinstance(one, Bind)])
        async with asyncio.timeout(5):
            while it.books.pods[f"uid-{name}"].uuid:
                await failed.acquire()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    reports = [one.node.attributes.get("ready") for one in it.take() if isinstance(one, ReportNode)]
    assert reports == (["false"] if is_blamed else [])
