"""The last day of each queue (used, wanted, the most it might use) and of devices (free): samples in memory, from
followers.

Two grids of time: a sample every ten seconds for the last hour, and one every five minutes for the last day.
Columns of numbers, not rows of objects: memory is bounded by `limits.HISTORY_SERIES`. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from remuda_web import limits
from remuda_web.overview import Rates
from remuda_web.source import Row, Source, Unreadable

log = structlog.get_logger()

# The amounts of a resource that are kept, and the field of the row of a queue with each.
AMOUNTS: Final[Mapping[str, str]] = {
    "allocated": "allocated", "pending": "pending", "guaranteed": "guaranteed", "max": "max_in_force",
}  # fmt: skip
_NONE: Final = math.nan


class _Grid:
    """Samples of one queue, at least `every_ms` apart. Without an amount of a resource: NaN."""

    def __init__(self, every_ms: int, most: int) -> None:
        self._every_ms = every_ms
        self._most = most
        self.at: array[int] = array("q")
        self.running: array[int] = array("q")
        self.columns: dict[tuple[str, str], array[float]] = {}

    def add(self, at_ms: int, running: int, amounts: Mapping[tuple[str, str], float]) -> None:
        """Nothing where the sample before is too new."""
        if self.at and at_ms < self.at[-1] + self._every_ms:
            return
        for key in amounts.keys() - self.columns.keys():
            self.columns[key] = array("d", [_NONE] * len(self.at))
        self.at.append(at_ms)
        self.running.append(running)
        for key, column in self.columns.items():
            column.append(amounts.get(key, _NONE))
        if len(self.at) > self._most:
            del self.at[0], self.running[0]
            for column in self.columns.values():
                del column[0]
            for key in self.columns.keys() - amounts.keys():
                if not any(map(math.isfinite, self.columns[key])):
                    del self.columns[key]


class _Series:
    """The samples of a queue, or of the devices of a partition."""

    def __init__(self) -> None:
        self.fine = _Grid(limits.HISTORY_EVERY_MS, limits.HISTORY_SAMPLES)
        self.coarse = _Grid(limits.HISTORY_COARSE_EVERY_MS, limits.HISTORY_COARSE_SAMPLES)

    @property
    def series(self) -> int:
        """The number of resources: of those, all amounts are kept."""
        return len({resource for resource, _ in self.fine.columns})

    def add(self, at_ms: int, running: int, amounts: Mapping[tuple[str, str], float]) -> None:
        for grid in (self.fine, self.coarse):
            grid.add(at_ms, running, amounts)

    def shown(self) -> dict[str, Any]:
        """`times`, `running` and `resources`: of the day what is older than the hour, and then the hour."""
        fine, coarse = self.fine, self.coarse
        older = sum(at_ms < fine.at[0] for at_ms in coarse.at)
        resources: dict[str, dict[str, list[int | None]]] = {}
        for resource, amount in sorted(fine.columns.keys() | coarse.columns.keys()):
            before = coarse.columns.get((resource, amount), array("d", [_NONE] * len(coarse.at)))[:older]
            after = fine.columns.get((resource, amount), array("d", [_NONE] * len(fine.at)))
            values = [int(value) if math.isfinite(value) else None for value in (*before, *after)]
            resources.setdefault(resource, {})[amount] = values
        times, running = [*coarse.at[:older], *fine.at], [*coarse.running[:older], *fine.running]
        return {"times": times, "running": running, "resources": resources}


Place = tuple[str, str, str]  # the RM, the partition, the path of the queue


class QueueHistory:
    """`add` takes the rows of all queues of an RM."""

    def __init__(self, most_series: int = limits.HISTORY_SERIES) -> None:
        self._most_series = most_series
        self._queues: dict[Place, _Series] = {}
        self._series = 0

    def add(self, rm: str, rows: Iterable[Row], at_ms: int) -> None:
        """A queue that is not in `rows` is forgotten. While there is no room, new queues are not kept; those near root
        come first."""
        given = {(rm, row["partition"], row["path"]): row for row in rows}
        for place in [place for place in self._queues if place[0] == rm and place not in given]:
            self._series -= self._queues.pop(place).series
        for place, row in sorted(given.items(), key=lambda one: one[0][2].count(".")):
            self._add(place, row, at_ms)

    def _add(self, place: Place, row: Row, at_ms: int) -> None:
        amounts = {
            (resource, name): float(value) for name, kept in AMOUNTS.items() for resource, value in row[kept].items()
        }
        queue = self._queues.get(place)
        before = queue.series if queue is not None else 0
        known = {resource for resource, _ in queue.fine.columns} if queue is not None else set()
        if len(known | {resource for resource, _ in amounts}) - before > self._most_series - self._series:
            amounts = {key: value for key, value in amounts.items() if key[0] in known}
        if queue is None:
            if not amounts:
                return
            queue = self._queues[place] = _Series()
        queue.add(at_ms, row["running_applications"], amounts)
        self._series += queue.series - before

    def forget(self, rms: Sequence[str]) -> None:
        """All RMs but these."""
        for place in [place for place in self._queues if place[0] not in rms]:
            self._series -= self._queues.pop(place).series

    def has_room_for(self, rm: str) -> bool:
        """Whether samples of the RM would be kept."""
        return self._series < self._most_series or any(place[0] == rm for place in self._queues)

    def of(self, rm: str, partition: str, path: str) -> dict[str, Any]:
        """`times` in ms since 1970, oldest first; `resources`: by resource and amount as many values, in base units,
        None where there is no such amount; `running`: applications. `kept` is false for a queue without history."""
        queue = self._queues.get((rm, partition, path))
        shown: dict[str, Any] = {
            "rm": rm, "partition": partition, "queue": path, "kept": queue is not None, "times": [], "running": [],
            "resources": {},
        }  # fmt: skip
        return shown if queue is None else {**shown, **queue.shown()}


class DeviceHistory:
    """The free amounts on the devices of each partition of an RM. `add` takes the sums of its devices."""

    def __init__(self, most_series: int = limits.HISTORY_DEVICES) -> None:
        self._most_series = most_series
        self._partitions: dict[tuple[str, str], _Series] = {}

    def add(self, rm: str, partition: str, sums: Iterable[Row], at_ms: int) -> None:
        """Resources above the bound are not kept."""
        room = self._most_series - sum(one.series for one in self._partitions.values())
        known = self._partitions.get((rm, partition))
        kept = {resource for resource, _ in known.fine.columns} if known is not None else set()
        amounts: dict[tuple[str, str], float] = {}
        for one in sums:
            resource, unit = one["resource"], one["capacity"] / one["devices"] if one["devices"] else 0
            if resource in kept or room > 0:
                room -= resource not in kept
                found = {name: one[name] for name in ("capacity", "free", "fragments")} | {"whole": one["whole"] * unit}
                amounts |= {(resource, name): float(value) for name, value in found.items()}
        if known is None and amounts:
            known = self._partitions[rm, partition] = _Series()
        if known is not None:
            known.add(at_ms, 0, amounts)

    def forget(self, rms: Sequence[str]) -> None:
        """All RMs but these."""
        self._partitions = {place: one for place, one in self._partitions.items() if place[0] in rms}

    def of(self, rm: str, partition: str) -> dict[str, Any]:
        """The history of a partition, in the form of a queue's. Of each resource: `capacity`, what is `free`, what of
        it is on `whole` devices, and `fragments`, which no waiting or common ask can use."""
        known = self._partitions.get((rm, partition))
        found = known.shown() if known is not None else {"times": [], "resources": {}}
        return {"rm": rm, "partition": partition, "kept": known is not None,
                "times": found["times"], "resources": found["resources"]}  # fmt: skip


async def sample_devices(source: Source, history: DeviceHistory) -> None:
    """Read the sums of all devices of all RMs again and again. An RM that had no devices is asked less often: a core
    adds up all nodes for the answer."""
    rest: dict[str, float] = {}  # until when an RM is not asked
    while True:
        began = time.monotonic()
        rms = list(source.rms())
        history.forget(rms)
        rest = {rm: until for rm, until in rest.items() if rm in rms and until > began}
        for rm in (rm for rm in rms if rm not in rest):
            try:
                if not await _sample(source, history, rm):
                    rest[rm] = began + limits.HISTORY_NO_DEVICES_S
            except Unreadable:
                pass  # a gap
            except KeyError as error:
                log.warning("no sample of devices: an answer of a core lacks a field, is it older?", field=str(error))
                rest[rm] = began + limits.HISTORY_NO_DEVICES_S
        took_s = time.monotonic() - began
        await asyncio.sleep(max(limits.HISTORY_EVERY_MS / 1_000, limits.HISTORY_REST * took_s))


async def _sample(source: Source, history: DeviceHistory, rm: str) -> bool:
    """Whether the RM has devices. The first row of a partition is that of all its nodes."""
    first = await source.page(rm, "topology", limit=1)
    named = [one["name"] for one in first["partitions"] if one["devices"]]
    for name in named:
        page = await source.page(rm, "topology", after=[name, -1], limit=1)
        for row in (row for row in page["domains"] if row["partition"] == name):
            history.add(rm, name, row["devices"], time.time_ns() // 1_000_000)
    return bool(named)


async def sample_queues(source: Source, history: QueueHistory, rates: Rates) -> None:
    """Read the queues of all RMs and how many allocations they have made, again and again, one RM after the other, and
    no more than a tenth of the time."""
    while True:
        began = time.monotonic()
        rms = list(source.rms())
        history.forget(rms)
        rates.forget(rms)
        for rm in rms:
            try:
                if len(rms) <= limits.RATES_SAMPLED:
                    rates.add(rm, (await source.stats(rm))["allocations_ever"])
                if not history.has_room_for(rm):
                    continue
                history.add(rm, await source.rows(rm, "queues"), time.time_ns() // 1_000_000)
            except Unreadable:
                pass  # a gap; the next sample shows the queues again
            except KeyError as error:
                log.warning("no sample of queues: an answer of a core lacks a field, is it older?", field=str(error))
        took_s = time.monotonic() - began
        await asyncio.sleep(max(limits.HISTORY_EVERY_MS / 1_000, limits.HISTORY_REST * took_s))
