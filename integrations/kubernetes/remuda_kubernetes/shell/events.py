"""Events of Kubernetes, as the API server wants them (events.k8s.io/v1): the same event again is counted, and an object
does not get more than people can read."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from remuda_kubernetes import limits, metrics
from remuda_kubernetes.api.client import MERGE_PATCH, Client, NotFound, now_text
from remuda_kubernetes.shim.effects import PodName, RecordEvent

CONTROLLER = "remuda.io/scheduler"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Series:
    """An event and its repetitions. `name`: of the event at the API server; empty: it has not been written."""

    name: str = ""
    count: int = 0
    seen_at: float = 0.0
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Budget:
    """`left`: events of an object that may be written, at `at`."""

    left: float = limits.EVENT_BURST
    at: float = 0.0

    def is_spent(self, now: float) -> bool:
        self.left = min(limits.EVENT_BURST, self.left + (now - self.at) / limits.EVENT_EVERY_S)
        self.at = now
        return self.left < 1


class EventWriter:
    """Writes events. `instance`: the name of this process in events."""

    def __init__(self, client: Client, instance: str) -> None:
        self._client = client
        self._instance = instance[: limits.INSTANCE_CHARACTERS]
        self._series: OrderedDict[RecordEvent, _Series] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, PodName], _Budget] = OrderedDict()

    async def write(self, event: RecordEvent) -> None:
        """Write the event, or count it at the one that was written within EVENT_SERIES_S. Raises ApiError."""
        now = asyncio.get_running_loop().time()
        series = _remembered(self._series, event, _Series)
        budget = _remembered(self._budgets, (event.kind, event.of), _Budget)
        async with series.writing:
            if now - series.seen_at > limits.EVENT_SERIES_S:
                series.name, series.count = "", 0
            series.seen_at = now
            if budget.is_spent(now):
                metrics.DROPPED.inc()
            else:
                await self._write(event, series)
                budget.left -= 1
            series.count += 1

    async def _write(self, event: RecordEvent, series: _Series) -> None:
        path = _path(event)
        if series.name:
            now = {"count": series.count + 1, "lastObservedTime": now_text()}
            try:
                await self._client.patch(f"{path}/{series.name}", {"series": now}, MERGE_PATCH)
                return
            except NotFound:  # the API server deletes events after some time
                series.name, series.count = "", 0
        name = f"{event.of.name[: limits.EVENT_NAME_CHARACTERS].rstrip('-.')}.{secrets.token_hex(8)}"
        await self._client.create(path, _body(event, name, self._instance))
        series.name = name


def _remembered(known: OrderedDict[K, V], key: K, made: Callable[[], V]) -> V:
    """The newest EVENTS_REMEMBERED are kept."""
    value = known.pop(key, None)
    if value is None:
        value = made()
    known[key] = value
    if len(known) > limits.EVENTS_REMEMBERED:
        known.popitem(last=False)
    return value


def _path(event: RecordEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"


def _body(event: RecordEvent, name: str, instance: str) -> dict[str, Any]:
    of = event.of
    regarding = {"kind": event.kind, "apiVersion": "v1", "name": of.name, "uid": of.uid}
    if of.namespace:
        regarding["namespace"] = of.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": _namespace(event)},
        "eventTime": now_text(),
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "action": event.action,
        "note": event.note[: limits.EVENT_CHARACTERS],
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "regarding": regarding,
    }


def _namespace(event: RecordEvent) -> str:
    """The API server wants events on objects without a namespace there."""
    return event.of.namespace or "kube-system"
