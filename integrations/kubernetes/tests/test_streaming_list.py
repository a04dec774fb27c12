"""Watches that begin with all objects, by an HTTP server that answers as Kubernetes 1.32 and later do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import PODS, Client
from remuda_kubernetes.api.credentials import Credentials, FixedToken
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.reflector import Reflector


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, "spec": {}}


def event(kind: str, of: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": of}


def end(version: int) -> dict[str, Any]:
    marked = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return event("BOOKMARK", {"kind": "Pod", "metadata": marked})


class Server:
    """`watches`: what each watch sends, in order, before it ends; the last one stays open. `missing`: the errors of
    the first requests: there are no such objects."""

    def __init__(self, *watches: list[dict[str, Any]], refuses: bool = False, missing: tuple[int, ...] = ()) -> None:
        self.asked: list[dict[str, str]] = []
        self._watches = list(watches)
        self.is_optional = bool(missing)
        self._missing = list(missing)
        self._refuses = refuses

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.asked.append(query)
        if self._missing:
            status = self._missing.pop(0)
            return web.json_response({"code": status, "message": "not here"}, status=status)
        if "watch" not in query:
            return web.json_response({"metadata": {"resourceVersion": "50"}, "items": [pod("listed", 7)]})
        if self._refuses and "sendInitialEvents" in query:
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            return web.json_response({"code": 422, "message": message}, status=422)
        answer = web.StreamResponse()
        await answer.prepare(request)
        for one in self._watches.pop(0) if self._watches else []:
            await answer.write(msgspec.json.encode(one) + b"\n")
        if not self._watches:
            await asyncio.sleep(60)
        return answer


class Seen:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self._more = asyncio.Event()

    def call(self, what: str) -> None:
        self.calls.append(what)
        self._more.set()

    async def until(self, *expected: str) -> None:
        async with asyncio.timeout(20):
            while self.calls != list(expected):
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def reflecting(server: Server) -> AsyncIterator[Seen]:
    """A reflector of pods at this server."""
    app = web.Application()
    app.router.add_get("/api/v1/pods", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    seen = Seen()

    def changed(one: Pod) -> None:
        seen.call(f"{one.metadata.name} {one.metadata.resource_version}")

    def gone(one: Pod) -> None:
        seen.call(f"{one.metadata.name} gone")

    def tell(is_served: bool) -> None:
        seen.call("served" if is_served else "not served")

    served = tell if server.is_optional else None
    async with Client(Credentials(url, None, FixedToken(""))) as client:
        reflector = Reflector(client, PODS, changed, gone, lambda: seen.call("listed"), streams=True, served=served)
        task = asyncio.create_task(reflector.run())
        try:
            yield seen
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    await runner.cleanup()


async def test_watch_begins_with_all_objects() -> None:
    initial = [event("ADDED", pod("a", 3)), event("ADDED", pod("b", 4)), end(9)]
    server = Server([*initial, event("MODIFIED", pod("b", 10)), event("DELETED", pod("a", 11))])
    async with reflecting(server) as seen:
        await seen.until("a 3", "b 4", "listed", "b 10", "a gone")
    (query,) = server.asked
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert query["resourceVersion"] == ""
    assert query["allowWatchBookmarks"] == "true"


async def test_changes_before_the_mark_count_as_they_are_in_the_end() -> None:
    changes = [event("ADDED", pod("a", 3)), event("ADDED", pod("b", 4)), event("MODIFIED", pod("a", 5))]
    async with reflecting(Server([*changes, event("DELETED", pod("b", 6)), end(9)])) as seen:
        await seen.until("a 5", "listed")


async def test_next_watch_begins_behind_the_last_version() -> None:
    server = Server([event("ADDED", pod("a", 3)), end(9)], [event("MODIFIED", pod("a", 12))])
    async with reflecting(server) as seen:
        await seen.until("a 3", "listed", "a 12")
    assert [one["resourceVersion"] for one in server.asked] == ["", "9"]
    assert "sendInitialEvents" not in server.asked[1]


async def test_what_went_while_no_watch_ran_is_gone() -> None:
    """The version has expired: everything comes again."""
    expired = event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
    server = Server(
        [event("ADDED", pod("a", 3)), event("ADDED", pod("b", 4)), end(9)],
        [expired],
        [event("ADDED", pod("b", 4)), event("ADDED", pod("c", 15)), end(20)],
    )
    async with reflecting(server) as seen:
        await seen.until("a 3", "b 4", "listed", "a gone", "c 15", "listed")
    assert [one["resourceVersion"] for one in server.asked] == ["", "9", ""]


async def test_server_that_refuses_is_listed() -> None:
    server = Server([event("MODIFIED", pod("listed", 51))], refuses=True)
    async with reflecting(server) as seen:
        await seen.until("listed 7", "listed", "listed 51")
    assert [("watch" in one, one.get("resourceVersion")) for one in server.asked] == [
        (True, ""), (False, None), (True, "50"),
    ]  # fmt: skip


async def test_watch_that_ends_without_the_mark_is_followed_by_a_list() -> None:
    """As of a server that does not know the parameters."""
    async with reflecting(Server([event("ADDED", pod("a", 3))], [])) as seen:
        await seen.until("listed 7", "listed")


async def test_objects_of_a_controller_that_is_not_installed_are_looked_for_again(monkeypatch: Any) -> None:
    """A watch is refused, then a list; and later there is no right to the objects."""
    monkeypatch.setattr(limits, "OPTIONAL_RETRY_S", 0.01)
    server = Server([event("ADDED", pod("a", 3)), end(9)], missing=(404, 404, 403))
    async with reflecting(server) as seen:
        await seen.until("listed", "not served", "listed", "not served", "listed 7", "listed", "served")
