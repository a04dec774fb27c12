"""Calls of the Kubernetes API: what answers mean, on a scripted API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import msgspec
import pytest
from aiohttp import web

from integrations.kubernetes.tests.late_claims import claim, given_to, volume
from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_bus.retry import RetryPolicy
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import ApiError, Away, Budgeted, Client, Conflict, NotFound, Pace, error_of
from remuda_kubernetes.api.credentials import Credentials, FixedToken
from remuda_kubernetes.api.objects import Claim, Volume
from remuda_kubernetes.metrics import Places
from remuda_kubernetes.shell.calls import Calls, Traces
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import (
    Bind,
    BindVolumes,
    CreatePlaceholder,
    DeletePod,
    Effect,
    PodName,
    RecordEvent,
    ReportNode,
    SetCondition,
)
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.task_groups import placeholder_pod, task_groups_of
from remuda_proto.si.v1 import si_pb2 as si

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
    server = Taken(owned_by(manifest, owner))
    assert await failures_of(server, CreatePlaceholder("default.app", manifest)) == failures


@pytest.mark.parametrize(
    ("change", "deletions"),
    [({"status": {"phase": "Failed"}}, 1), ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 0)],
)
async def test_placeholder_of_before_does_not_stand_for_the_new_one(change: dict[str, Any], deletions: int) -> None:
    """It is created as soon as that one is gone, which is deleted if nobody has."""
    it = shim("n1")
    it.pod_changed(pod("driver", app="app", cpu="1", annotations=GROUPS))
    it.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")]))
    (create,) = [one for one in it.take() if isinstance(one, CreatePlaceholder)]
    there = create.manifest | change
    there["metadata"] = create.manifest["metadata"] | change.get("metadata", {}) | {"uid": "uid-left"}
    (report,) = await reports_of(Taken(there), create)
    report(it)
    assert [one.pod.uid for one in it.take() if isinstance(one, DeletePod)] == ["uid-left"] * deletions
    again = []
    for _ in range(limits.DELETION_SWEEPS):
        it.sweep()
        again += [one for one in it.take() if isinstance(one, CreatePlaceholder)]
    assert again == [create]


async def failures_of(server: Taken | Changed, change: Effect) -> int:
    """How often the shim hears of the change, whose conflict the server is asked about."""
    return len(await reports_of(server, change))


async def reports_of(server: Taken | Changed, change: Effect) -> list[Callable[[Shim], None]]:
    reported: list[Callable[[Shim], None]] = []
    calls = Calls(server, "here", reported.append, Traces(), Places())  # type: ignore[arg-type]
    calls.add([change])
    running = asyncio.create_task(calls.run())
    await server.is_asked.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return reported


class Refusing:
    """An API server where a policy refuses the first deletion of a pod."""

    def __init__(self) -> None:
        self.deletions = 0

    async def delete_pod(self, *_: object) -> None:
        self.deletions += 1
        if self.deletions == 1:
            raise error_of(403, "a policy says no")


async def test_deletion_that_is_refused_is_tried_again() -> None:
    """The scheduler waits for the end of the pod, and others for its room."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app"))
    new = si.Allocation(allocationKey="uid-p", UUID="u", nodeID="n1", applicationID="default.app")
    it.allocation(si.AllocationResponse(new=[new]))
    kind = si.TIMEOUT
    over = si.AllocationRelease(applicationID="default.app", UUID="u", allocationKey="uid-p", terminationType=kind)
    it.allocation(si.AllocationResponse(released=[over]))
    server, refused = Refusing(), asyncio.Event()

    def on_shim(change: Callable[[Shim], None]) -> None:
        change(it)
        refused.set()

    calls = Calls(server, "here", on_shim, Traces(), Places())  # type: ignore[arg-type]
    running = asyncio.create_task(calls.run())
    calls.add([one for one in it.take() if isinstance(one, DeletePod)])
    async with asyncio.timeout(5):
        await refused.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    again = []
    for _ in range(3 * limits.DELETION_SWEEPS):
        it.sweep()
        again += [one for one in it.take() if isinstance(one, DeletePod)]
    assert [one.pod.uid for one in again] == ["uid-p"]


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
            while it.cache.pods[f"uid-{name}"].uuid:
                await failed.acquire()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    reports = [one.node.attributes.get("ready") for one in it.take() if isinstance(one, ReportNode)]
    assert reports == (["false"] if is_blamed else [])


class Changed:
    """An API server where a volume, or a claim, has changed since it was read. `there`: how it is by now."""

    def __init__(self, there: Volume | Claim) -> None:
        self._there = there
        self.patches: list[dict[str, Any]] = []
        self.is_asked = asyncio.Event()

    async def patch(self, path: str, body: dict[str, Any], form: str) -> bytes:
        self.patches.append(body)
        raise Conflict("the object has been modified", 409)

    async def get(self, path: str, kind: type[Any]) -> Any:
        assert kind is type(self._there)
        self.is_asked.set()
        return self._there


@pytest.mark.parametrize(("uid", "failures"), [("uid-c", 0), ("uid-another", 1)])
async def test_volume_that_has_changed_is_reserved_if_it_is_by_now(uid: str, failures: int) -> None:
    """An earlier attempt, whose answer was lost, may have succeeded."""
    server = Changed(volume("v1", **given_to("c", uid)))
    change = BindVolumes(PodName("default", "p", "uid-p"), "n1", ((volume("v1"), claim()),), ())
    assert await failures_of(server, change) == failures
    (patch,) = server.patches
    assert patch["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


@pytest.mark.parametrize(("selected", "failures"), [("n1", 0), ("n2", 1), ("", 1)])
async def test_claim_that_has_changed_is_made_for_the_node_if_it_is_by_now(selected: str, failures: int) -> None:
    """A late write must not replace a later decision."""
    server = Changed(claim(selected=selected))
    read = claim(metadata={"resourceVersion": "7"})
    change = BindVolumes(PodName("default", "p", "uid-p"), "n1", (), (read,))
    assert await failures_of(server, change) == failures
    (patch,) = server.patches
    assert patch["metadata"]["resourceVersion"] == "7"


class Noting:
    """An API server that accepts bindings and notes. `said`: the message of each condition, by the path of its pod."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.has_event = asyncio.Event()

    async def bind(self, *_: object) -> None:
        pass

    async def patch(self, path: str, body: dict[str, Any]) -> bytes:
        self.said += [(path.split("/")[-2], one["message"]) for one in body["status"]["conditions"]]
        return b""

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        self.has_event.set()
        return b""


async def test_pod_that_waits_no_more_is_not_said_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions wait for bindings. By then, the API server has said that the pod is scheduled."""
    monkeypatch.setattr(limits, "NOTES_WAIT_S", 0.0)
    server = Noting()
    p, q = PodName("default", "p", "uid-p"), PodName("default", "q", "uid-q")
    calls = Calls(server, "here", lambda _: None, Traces(), Places())  # type: ignore[arg-type]
    calls.add([SetCondition(p, "Unschedulable", "full"), SetCondition(q, "Unschedulable", "full")])
    calls.add([Bind(p, "n1"), SetCondition(q, "SchedulingSkipped", "quota")])
    calls.add([RecordEvent("Pod", p, "Scheduled", "Scheduling", ""), SetCondition(p, "Unschedulable", "over")])
    calls.add([Bind(p, "n1")])
    running = asyncio.create_task(calls.run())
    async with asyncio.timeout(5):
        await server.has_event.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert server.said == [("q", "quota")]


async def test_conditions_that_were_dropped_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_WRITES", 2)
    calls = Calls(Noting(), "here", lambda _: None, Traces(), Places())  # type: ignore[arg-type]
    for number in range(5):
        calls.add([SetCondition(PodName("default", "p", f"uid-{number}"), "Unschedulable", "full")])
    assert list(calls._conditions) == ["uid-3", "uid-4"]


BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (201, "", None), (429, BUDGET, Budgeted), (500, SEVERAL, Budgeted), (429, "too many requests", Away),
        (404, 'pods "p" not found', NotFound), (409, "uid precondition", Conflict),
    ],
)  # fmt: skip
async def test_a_budgets_refusal_is_told_from_an_overload(
    status: int, message: str, error: type[Exception] | None
) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({"code": status, "message": message}, status=status)

    app = web.Application()
    app.router.add_post("/api/v1/namespaces/team/pods/p/eviction", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with Client(Credentials(url, None, FixedToken(""))) as client:
        with pytest.raises(error) if error is not None else nullcontext():
            await client.evict("team", "p", "uid-p")
    await runner.cleanup()
    (sent,) = asked
    assert (sent["apiVersion"], sent["deleteOptions"]["preconditions"]) == ("policy/v1", {"uid": "uid-p"})


# The pace of calls


async def test_calls_are_paced_in_their_order() -> None:
    """Three at once, and ten a second after that. A quiet second fills up what may come at once."""
    loop = asyncio.get_running_loop()
    with paused_time(loop) as clock:
        pace, passed = Pace(10, 3), []
        for _ in range(2):
            began = clock.now
            for _ in range(6):
                await pace.wait()
                passed.append(round(clock.now - began, 3))
            clock.now += 1
    assert passed == [0, 0, 0, 0.1, 0.2, 0.3] * 2


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def paused_time(loop: asyncio.AbstractEventLoop) -> Iterator[Clock]:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: clock.now)
        patch.setattr(asyncio, "sleep", clock.sleep)
        yield clock


async def test_lease_is_not_held_up_by_the_pace() -> None:
    """Else the front end would lose it."""
    client = Client(Credentials("http://none", None, FixedToken("")))

    class Refuses:
        async def wait(self) -> None:
            raise AssertionError("paced")

    client.pace = Refuses()  # type: ignore[assignment]
    async with client:
        with pytest.raises(AssertionError):
            await client.call("GET", "/api/v1/pods")
        with pytest.raises(Away):
            await client.call("PUT", "/apis/coordination.k8s.io/v1/namespaces/remuda/leases/remuda", {})
