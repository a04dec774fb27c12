"""The client against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs
from integrations.kubernetes.tests.manifests import node, pod
from remuda_kubernetes.api.client import NODES, PODS, Away, Client, Conflict, Expired, NotFound, Rejected, Resource
from remuda_kubernetes.api.credentials import Credentials, FixedToken, read_kubeconfig
from remuda_kubernetes.api.objects import Object, Pod
from remuda_kubernetes.api.reflector import Reflector

pytestmark = pytest.mark.skipif(programs() is None, reason="no control plane: run `make kubernetes`")
IN_DEFAULT = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(read_kubeconfig(plane.kubeconfig())) as connected:
        yield connected
        for one in (await connected.list(PODS))[0]:
            await connected.delete_pod("default", one.metadata.name, one.uid, grace_s=0)


@asynccontextmanager
async def reflecting(client: Client, known: dict[str, Pod], gone: list[str]) -> AsyncIterator[Reflector[Pod]]:
    def changed(one: Pod) -> None:
        known[one.metadata.name] = one

    def removed(one: Pod) -> None:
        gone.append(one.metadata.name)

    reflector = Reflector(client, PODS, changed, removed)
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(20):
            await reflector.synced.wait()
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


async def test_binding_is_final(client: Client) -> None:
    await client.create("/api/v1/nodes", node("n1"))
    await client.create("/api/v1/nodes", node("n2"))
    assert {one.metadata.name for one in (await client.list(NODES))[0]} == {"n1", "n2"}
    await client.create(IN_DEFAULT, pod("p", cpu="100m"))
    ((found,), _) = await client.list(PODS)
    assert found.spec.containers[0].resources is not None
    assert found.spec.containers[0].resources.requests == {"cpu": "100m"}
    await client.bind("default", "p", found.uid, "n1")
    with pytest.raises(Conflict, match='already assigned to node "n1"'):
        await client.bind("default", "p", found.uid, "n2")
    with pytest.raises(NotFound):
        await client.bind("default", "gone", found.uid, "n1")
    with pytest.raises(Rejected):
        await client.create(IN_DEFAULT, {**pod("q"), "spec": {}})


async def test_reflector_sees_each_object_come_change_and_go(client: Client) -> None:
    known: dict[str, Pod] = {}
    gone: list[str] = []
    await client.create(IN_DEFAULT, pod("before"))
    async with reflecting(client, known, gone):
        assert set(known) == {"before"}
        await client.create(IN_DEFAULT, pod("later"))
        await until(lambda: "later" in known)
        await client.patch(f"{IN_DEFAULT}/later", {"metadata": {"labels": {"color": "red"}}})
        await until(lambda: known["later"].metadata.label("color") == "red")
        await client.delete_pod("default", "later", known["later"].uid)
        await until(lambda: gone == ["later"])


async def test_list_is_read_in_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_kubernetes.limits.LIST_PAGE", 3)
    for number in range(8):
        await client.create(IN_DEFAULT, pod(f"p{number}"))
    items, version = await client.list(PODS)
    assert len(items) == 8
    assert int(version) > 0


async def test_version_that_is_too_old_is_listed_again(client: Client, plane: ControlPlane) -> None:
    maps = Resource("/api/v1/namespaces/default/configmaps", Object)
    for name in ("kept", "lost"):
        await client.create(maps.path, {"metadata": {"name": name}})
    items, version = await client.list(maps)
    known = {one.metadata.name: one for one in items}

    def gone(one: Object) -> None:
        del known[one.metadata.name]

    reflector = Reflector(client, maps, lambda one: None, gone)
    await reflector._list()
    await client.call("DELETE", f"{maps.path}/lost")
    await client.create(maps.path, {"metadata": {"name": "later"}})
    plane.compact()
    with pytest.raises(Expired):
        async for _ in client.watch(maps, version):
            pass
    assert set(known) >= {"kept", "lost"}
    task = asyncio.create_task(reflector.run())
    await until(lambda: "lost" not in known)
    assert "kept" in known
    task.cancel()
    await asyncio.wait([task])


async def test_watch_that_ends_continues_without_a_list(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_kubernetes.limits.WATCH_S", 1)
    versions: list[str] = []
    lists: list[str] = []
    watch, list_all = Client.watch, Client.list

    def watching(self: Client, resource: Resource[Pod], version: str) -> object:
        versions.append(version)
        return watch(self, resource, version)

    async def listing(self: Client, resource: Resource[Pod]) -> object:
        lists.append(resource.path)
        return await list_all(self, resource)

    monkeypatch.setattr(Client, "watch", watching)
    monkeypatch.setattr(Client, "list", listing)
    known: dict[str, Pod] = {}
    async with reflecting(client, known, []):
        await until(lambda: len(versions) == 2)
        await client.create(IN_DEFAULT, pod("late"))
        await until(lambda: "late" in known and len(versions) == 3)
        assert int(versions[2]) > int(versions[0])
        assert len(lists) == 1


async def test_wrong_token_is_an_outage_of_the_credentials(plane: ControlPlane) -> None:
    credentials = plane.credentials()
    wrong = Credentials(credentials.server, credentials.tls, FixedToken("wrong"))
    async with Client(wrong) as client:
        with pytest.raises(Away, match="401"):
            await client.list(PODS)


async def test_unreachable_server(tmp_path: Path) -> None:
    async with Client(Credentials("http://127.0.0.1:1", None, FixedToken(""))) as client:
        with pytest.raises(Away):
            await client.list(PODS)
