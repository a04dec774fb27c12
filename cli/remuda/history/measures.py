"""Measures a history from its facts, whether it happened or was played: waits, use over time, preemptions, gangs. Pure.

The wait of an allocation is the time from the acceptance of its ask to it. Asks that still wait in the end count with
their time so far, in numbers of their own. Work is lost by preemption: the amount of the allocation, times how long it
ran.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from remuda_core import facts
from remuda_core.facts import Fact
from remuda_core.rules import lifecycle
from remuda_core.state import State

from .spool import ApplicationWaits

# Points of a series over the whole period.
POINTS = 120
MS_PER_HOUR = 3_600_000
# So many times are exact; of more, those of up to so many bits.
EXACT_TIMES = 500
EXACT_BITS = 10
Key = tuple[str, str, str]


class Series:
    """The integral of an amount over each of POINTS equal parts of a period, from its changes."""

    __slots__ = ("_areas", "_levels")

    def __init__(self) -> None:
        self._levels = [0.0] * (POINTS + 1)
        self._areas = [0.0] * POINTS

    def change(self, amount: int, place: float) -> None:
        """Adds so much from `place` on, which is counted in parts of the period, from its beginning."""
        number = int(place)
        if number < POINTS:
            self._areas[number] += amount * (number + 1 - place)
            self._levels[number + 1] += amount

    def means(self) -> list[float]:
        levels = list(accumulate(self._levels))
        return [level + area for level, area in zip(levels, self._areas, strict=False)]


class Times:
    """Times in ms, of which quantiles are wanted. Few times are kept as they are. Many are rounded down by at most
    0.2 % and counted, so that millions take no more room than thousands."""

    __slots__ = ("_by_bits", "_few", "count")

    def __init__(self) -> None:
        self.count = 0
        self._few: array[int] = array("q")
        # By the number of lowest bits that are left out of a time: a count for each value of the others.
        self._by_bits: dict[int, array[int]] = {}

    def add(self, ms: int) -> None:
        self.count += 1
        if self.count <= EXACT_TIMES:
            self._few.append(ms)
            return
        if self._few:
            for one in self._few:
                self._count(one)
            self._few = array("q")
        self._count(ms)

    def _count(self, ms: int) -> None:
        left_out = max(0, ms.bit_length() - EXACT_BITS)
        counts = self._by_bits.get(left_out)
        if counts is None:
            counts = self._by_bits[left_out] = array("Q", bytes(8 << EXACT_BITS))
        counts[ms >> left_out] += 1

    def quantile(self, percent: int) -> int:
        """The smallest time that at least so many per cent of the times do not exceed; 0: there are none."""
        left = max(1, -(-self.count * percent // 100))
        if self._few:
            return sorted(self._few)[left - 1]
        for left_out, counts in sorted(self._by_bits.items()):
            for value, count in enumerate(counts):
                left -= count
                if left <= 0:
                    return value << left_out
        return 0


@dataclass(slots=True)
class Waits:
    """Times that asks waited, in ms. `still`: the number of asks that wait in the end, and how long they have so
    far."""

    ended: Times = field(default_factory=Times)
    total_ms: int = 0
    most_ms: int = 0
    still: int = 0
    still_most_ms: int = 0

    def add(self, wait_ms: int) -> None:
        self.ended.add(wait_ms)
        self.total_ms += wait_ms
        self.most_ms = max(self.most_ms, wait_ms)

    def add_still(self, wait_ms: int, count: int) -> None:
        self.still += count
        self.still_most_ms = max(self.still_most_ms, wait_ms if count else 0)

    def row(self) -> dict[str, Any]:
        count = self.ended.count
        return {
            "count": count,
            "mean_ms": self.total_ms / count if count else 0,
            **{f"p{percent}_ms": self.ended.quantile(percent) for percent in (50, 95, 99)},
            "most_ms": self.most_ms,
            "still_waiting": self.still,
            "still_waiting_most_ms": self.still_most_ms,
        }


@dataclass(slots=True)
class _Application:
    """`waited_ms`: of all its `asks` that have been allocated. `waits`, `series`: where its waits and, by resource, its
    use count; empty: not looked up since its queue changed."""

    queue: str
    user: str
    waited_ms: int = 0
    asks: int = 0
    waits: list[Waits] = field(default_factory=list)
    series: dict[str, list[Series]] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    application: tuple[str, str]
    resource: Mapping[str, int]
    since_ms: int


class Measures:
    """The measures of the period from `begin_ms` to `end_ms`, at whose beginning there is `state`. `by_application`:
    the file of the waits of applications; None: they are not written. Memory is bounded by the asks, allocations and
    applications that are alive."""

    def __init__(
        self, state: State, begin_ms: int, end_ms: int, by_application: ApplicationWaits | None = None
    ) -> None:
        self._begin_ms, self._end_ms = begin_ms, end_ms
        self._part_ms = max(1.0, (end_ms - begin_ms) / POINTS)
        self._by_application = by_application
        self._applications: dict[tuple[str, str], _Application] = {}
        self._unknown = _Application("", "")
        self._asked: dict[Key, list[int]] = {}  # since when, and how many
        self._placeholders: set[Key] = set()
        self._running: dict[str, _Running] = {}
        self._nodes: dict[tuple[str, str], Mapping[str, int]] = {}
        self._gangs: dict[tuple[str, str], int] = {}
        self._used: dict[tuple[str, str, str], Series] = {}  # kind, name, resource
        self.waits: dict[tuple[str, str], Waits] = defaultdict(Waits)  # kind, name
        self.gangs = Times()
        self.preemptions = 0
        self.lost: dict[str, float] = defaultdict(float)  # amount · hours
        self.finished_applications = 0
        for partition in state.partitions.values():
            for node in partition.nodes.values():
                self._node(partition.name, node.id, node.capacity, begin_ms)
            for application in partition.applications.values():
                name = (partition.name, application.id)
                self._applications[name] = _Application(application.queue.path, application.user)
                for key, pending in application.asks.items():
                    self._asked[(*name, key)] = [pending.at_ms, pending.pending]
                    if pending.ask.placeholder:
                        self._placeholders.add((*name, key))
                for uuid, allocation in application.allocations.items():
                    self._begun(uuid, name, allocation.fact.resource, begin_ms)

    def take(self, fact: Fact, now_ms: int) -> None:
        match fact:
            case facts.Allocated():
                self._allocated(fact, now_ms)
            case facts.AllocationRecovered(allocation):
                name = (allocation.partition, allocation.application_id)
                self._begun(allocation.uuid, name, allocation.resource, now_ms)
            case facts.PlaceholderReplaced(allocation, placeholder):
                self._over(placeholder, now_ms)
                self._allocated(allocation, now_ms)
            case facts.AllocationReleased():
                running = self._over(fact.uuid, now_ms)
                if running is not None and fact.termination_type == facts.PREEMPTED_BY_SCHEDULER:
                    self.preemptions += 1
                    for resource, amount in running.resource.items():
                        self.lost[resource] += amount * (now_ms - running.since_ms) / MS_PER_HOUR
            case facts.AskAccepted(ask):
                key = (ask.partition, ask.application_id, ask.allocation_key)
                self._asked[key] = [now_ms, ask.max_allocations]
                if ask.placeholder:
                    self._placeholders.add(key)
            case facts.AskChanged(ask):
                key = (ask.partition, ask.application_id, ask.allocation_key)
                self._asked[key] = [self._asked.get(key, (now_ms, 0))[0], ask.max_allocations]
            case facts.AskReleased():
                self._no_longer_asked((fact.partition, fact.application_id, fact.allocation_key))
            case facts.ApplicationAccepted():
                name = (fact.partition, fact.application_id)
                self._application_over(name)  # one with the same ID
                self._applications[name] = _Application(fact.queue, fact.user)
                if fact.placeholder_ask:
                    self._gangs[name] = now_ms
            case facts.ApplicationStateChanged():
                self._state_changed(fact, now_ms)
            case facts.ApplicationMoved():
                self._moved(fact, now_ms)
            case facts.ApplicationRemoved():
                name = (fact.partition, fact.application_id)
                self._application_over(name)
                self._gangs.pop(name, None)
            case facts.NodeAdded() | facts.NodeChanged():
                self._node(fact.partition, fact.node_id, fact.capacity, now_ms)
            case facts.NodeRemoved():
                self._node(fact.partition, fact.node_id, {}, now_ms)
            case facts.RmStopped(_, True) | facts.RmRegistered(_, _, _, _, _, _, "" | "report"):
                self._dropped(now_ms)

    def take_all(self, decided: Iterable[Fact], now_ms: int) -> None:
        for fact in decided:
            self.take(fact, now_ms)

    def finish(self) -> None:
        """Count what still waits in the end."""
        for key, (since_ms, count) in self._asked.items():
            if key not in self._placeholders:
                of = self._applications.get(key[:2], self._unknown)
                for name in _groups(of.queue, of.user):
                    self.waits[name].add_still(self._end_ms - since_ms, count)
        for name in list(self._applications):
            self._application_over(name)
        if self._by_application is not None:
            self._by_application.finish()

    def _allocated(self, fact: facts.Allocated, now_ms: int) -> None:
        name, key = (fact.partition, fact.application_id), (fact.partition, fact.application_id, fact.allocation_key)
        self._begun(fact.uuid, name, fact.resource, now_ms)
        asked = self._asked.get(key)
        if asked is None:
            return
        asked[1] -= 1
        if asked[1] <= 0:
            self._no_longer_asked(key)
        if fact.placeholder:
            return
        wait_ms = now_ms - asked[0]
        application = self._applications.get(name, self._unknown)
        if not application.waits:
            application.waits = [self.waits[group] for group in _groups(application.queue, application.user)]
        for waits in application.waits:
            waits.add(wait_ms)
        application.waited_ms += wait_ms
        application.asks += 1

    def _application_over(self, name: tuple[str, str]) -> None:
        application = self._applications.pop(name, None)
        if application is not None and application.asks and self._by_application is not None:
            self._by_application.add(name[1], application.waited_ms, application.asks)

    def _no_longer_asked(self, key: Key) -> None:
        self._asked.pop(key, None)
        self._placeholders.discard(key)

    def _begun(self, uuid: str, name: tuple[str, str], resource: Mapping[str, int], now_ms: int) -> None:
        self._running[uuid] = _Running(name, resource, now_ms)
        self._use(name, resource, 1, now_ms)

    def _over(self, uuid: str, now_ms: int) -> _Running | None:
        running = self._running.pop(uuid, None)
        if running is not None:
            self._use(running.application, running.resource, -1, now_ms)
        return running

    def _place(self, at_ms: int) -> float:
        return max(0.0, (at_ms - self._begin_ms) / self._part_ms)

    def _use(self, name: tuple[str, str], resource: Mapping[str, int], sign: int, now_ms: int) -> None:
        application, place = self._applications.get(name, self._unknown), self._place(now_ms)
        for one, amount in resource.items():
            series = application.series.get(one)
            if series is None:
                groups = (("queue", application.queue), ("user", application.user), ("all", ""))
                series = application.series[one] = [self._series(kind, group, one) for kind, group in groups]
            for each in series:
                each.change(sign * amount, place)

    def _series(self, kind: str, name: str, resource: str) -> Series:
        found = self._used.get((kind, name, resource))
        if found is None:
            found = self._used[kind, name, resource] = Series()
        return found

    def _node(self, partition: str, node_id: str, capacity: Mapping[str, int], now_ms: int) -> None:
        place = self._place(now_ms)
        for sign, amounts in ((-1, self._nodes.pop((partition, node_id), {})), (1, capacity)):
            for resource, amount in amounts.items():
                self._series("capacity", "", resource).change(sign * amount, place)
        if capacity:
            self._nodes[partition, node_id] = capacity

    def _moved(self, fact: facts.ApplicationMoved, now_ms: int) -> None:
        name = (fact.partition, fact.application_id)
        running = [one for one in self._running.values() if one.application == name]
        for one in running:
            self._use(name, one.resource, -1, now_ms)
        application = self._applications.setdefault(name, _Application("", ""))
        application.queue = fact.queue
        application.waits.clear()
        application.series.clear()
        for one in running:
            self._use(name, one.resource, 1, now_ms)

    def _state_changed(self, fact: facts.ApplicationStateChanged, now_ms: int) -> None:
        name = (fact.partition, fact.application_id)
        if fact.state == lifecycle.RUNNING and (since_ms := self._gangs.pop(name, None)) is not None:
            self.gangs.add(now_ms - since_ms)
        self.finished_applications += fact.state == lifecycle.COMPLETED

    def _dropped(self, now_ms: int) -> None:
        for uuid in list(self._running):
            self._over(uuid, now_ms)
        for partition, node_id in list(self._nodes):
            self._node(partition, node_id, {}, now_ms)
        self._asked.clear()

    def report(self) -> dict[str, Any]:
        """Returns the measures as JSON: waits by queue and user, mean use by resource, series, preemptions, gangs,
        fairness."""
        capacity = {one: self._used[kind, name, one].means() for kind, name, one in self._used if kind == "capacity"}
        series: dict[str, dict[str, dict[str, list[float]]]] = {"queue": {}, "user": {}, "all": {}}
        for (kind, name, resource), found in self._used.items():
            if kind != "capacity":
                series[kind].setdefault(name, {})[resource] = found.means()
        used = {resource: sum(means) / POINTS for resource, means in series["all"].get("", {}).items()}
        whole = {resource: sum(means) / POINTS for resource, means in capacity.items()}
        return {
            "waits": {
                kind: {name: waits.row() for (of, name), waits in sorted(self.waits.items()) if of == kind}
                for kind in ("all", "queue", "user")
            },
            "use": {
                resource: {"mean": mean, "capacity": whole.get(resource, 0), "share": _share(mean, whole.get(resource))}
                for resource, mean in sorted(used.items())
            },
            "fairness": _fairness(series["user"], capacity),
            "preemptions": {"count": self.preemptions, "lost_amount_hours": dict(sorted(self.lost.items()))},
            "gangs": {
                "count": self.gangs.count,
                "p50_ms": self.gangs.quantile(50),
                "p95_ms": self.gangs.quantile(95),
            },
            "applications_completed": self.finished_applications,
            "series": {"queue": series["queue"], "all": series["all"].get("", {}), "capacity": capacity},
        }


def _groups(queue: str, user: str) -> Iterable[tuple[str, str]]:
    """A wait counts for its queue and those above it, its user, and all."""
    names = queue.split(".") if queue else []
    yield "all", ""
    yield "user", user
    for count in range(1, len(names) + 1):
        yield "queue", ".".join(names[:count])


def _share(mean: float, whole: float | None) -> float:
    return mean / whole if whole else 0.0


def _fairness(users: Mapping[str, Mapping[str, list[float]]], capacity: Mapping[str, list[float]]) -> dict[str, Any]:
    """Jain's index of the users' dominant shares: 1 if all users with allocations have the same, 1/n if one of n has
    everything. `over_time`: of each part of the period; 0 where nobody has anything."""

    def shares(number: int) -> list[float]:
        return [
            max(
                (means[number] / capacity[one][number] for one, means in used.items() if _has(capacity, one, number)),
                default=0.0,
            )
            for used in users.values()
        ]

    over_time = [_jain(shares(number)) for number in range(POINTS)]
    busy = [one for one in over_time if one]
    return {"mean": sum(busy) / len(busy) if busy else 0.0, "over_time": over_time}


def _has(capacity: Mapping[str, list[float]], resource: str, number: int) -> bool:
    return resource in capacity and capacity[resource][number] > 0


def _jain(values: list[float]) -> float:
    some = [one for one in values if one > 1e-9]
    squares = len(some) * sum(one * one for one in some)
    return sum(some) ** 2 / squares if squares else 0.0
