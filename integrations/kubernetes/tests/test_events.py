"""Events of Kubernetes: repetitions are counted, and an object does not get too many."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Away, NotFound
from remuda_kubernetes.shell.events import EventWriter
from remuda_kubernetes.shim.effects import PodName, RecordEvent
from tests.sim.loop import VirtualLoop

EVENT = RecordEvent("Pod", PodName("default", "p", "uid-p"), "PodBindFailure", "Binding", "refused", True)


class Server:
    """Keeps events. `failures`: of the next calls."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.failures: list[Exception] = []

    @property
    def counts(self) -> list[int]:
        """0: no series."""
        return [event.get("series", {}).get("count", 0) for event in self.events.values()]

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        await self._called()
        assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
        self.events[f"{path}/{body['metadata']['name']}"] = body
        return b""

    async def patch(self, path: str, body: dict[str, Any], form: str) -> bytes:
        await self._called()
        if path not in self.events:
            raise NotFound(path, 404)
        assert body["series"]["count"] >= 2, "the API server refuses a series of one"
        self.events[path].update(body)
        return b""

    async def _called(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)


def on_virtual_time(steps: Any) -> None:
    loop = VirtualLoop(lambda *_: None)
    try:
        loop.run_until_complete(steps)
    finally:
        loop.close()


def writer() -> tuple[Server, EventWriter]:
    server = Server()
    return server, EventWriter(server, "here")  # type: ignore[arg-type]


def test_the_same_event_again_is_counted() -> None:
    server, events = writer()

    async def steps() -> None:
        for _ in range(3):
            await events.write(EVENT)
        assert server.counts == [3]
        await events.write(replace(EVENT, note="another"))
        await events.write(replace(EVENT, of=PodName("default", "p", "uid-of-another")))
        assert server.counts == [3, 0, 0]
        await asyncio.sleep(limits.EVENT_SERIES_S + 1)
        await events.write(EVENT)
        assert server.counts == [3, 0, 0, 0]

    on_virtual_time(steps())


def test_event_that_the_api_server_has_deleted_is_written_again() -> None:
    server, events = writer()

    async def steps() -> None:
        for _ in range(4):
            await events.write(EVENT)
        server.events.clear()
        await events.write(EVENT)
        assert server.counts == [0]
        await events.write(EVENT)
        assert server.counts == [2]

    on_virtual_time(steps())


def test_the_same_event_twice_at_once_is_one_series() -> None:
    server, events = writer()
    on_virtual_time(asyncio.wait_for(_both(events), 1))
    assert server.counts == [2]


async def _both(events: EventWriter) -> None:
    await asyncio.gather(events.write(EVENT), events.write(EVENT))


def test_failed_write_that_is_tried_again_counts_once() -> None:
    server, events = writer()

    async def steps() -> None:
        await events.write(EVENT)
        for _ in range(limits.EVENT_BURST):
            server.failures.append(Away("no answer", 503))
            with pytest.raises(Away):
                await events.write(EVENT)
        await events.write(EVENT)
        assert server.counts == [2]

    on_virtual_time(steps())


def test_object_does_not_get_more_than_people_can_read() -> None:
    server, events = writer()

    async def steps() -> None:
        for number in range(limits.EVENT_BURST + 10):
            await events.write(replace(EVENT, note=str(number)))
        assert len(server.events) == limits.EVENT_BURST
        await events.write(replace(EVENT, of=PodName("default", "q", "uid-q")))
        assert len(server.events) == limits.EVENT_BURST + 1
        await asyncio.sleep(limits.EVENT_EVERY_S + 1)
        for number in range(2):
            await events.write(replace(EVENT, note=f"later {number}"))
        assert len(server.events) == limits.EVENT_BURST + 2
        repeated = replace(EVENT, of=PodName("default", "r", "uid-r"))
        for _ in range(limits.EVENT_BURST + 9):
            await events.write(repeated)
        assert server.counts[-1] == limits.EVENT_BURST
        await asyncio.sleep(limits.EVENT_EVERY_S + 1)
        await events.write(repeated)
        assert server.counts[-1] == limits.EVENT_BURST + 10, "those that were not written count too"

    on_virtual_time(steps())


def test_memory_for_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS_REMEMBERED", 3)
    server, events = writer()

    async def steps() -> None:
        for number in range(10):
            await events.write(replace(EVENT, of=PodName("default", "p", f"uid-{number}")))
        assert (len(events._series), len(events._budgets)) == (3, 3)

    on_virtual_time(steps())
    assert len(server.events) == 10
