"""Simulate the tenants and services of one RM: submit applications and asks, release finished tasks."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import UserError
from ...show.wait_reasons import with_units
from ..driver import Ask, Driver
from ..rm_state import RunningAllocation
from .scene import ServiceApp, Site, Tenant

TICK_S = 0.05
ANSWERED_WITHIN_S = 10.0
DECISIONS_KEPT = 64
FED_UNTIL = 0.8  # part of the time
SETTLING = 0.1  # of the time: what a newcomer needs until its share is there


@dataclass(slots=True)
class Batch:
    """An application of a tenant: how many of its tasks have not ended yet."""

    tenant: Tenant
    left: int
    seconds: float  # how long its tasks run, if they end together


@dataclass(slots=True)
class Tally:
    """The share that a tenant got. `used` adds up amounts times seconds, but only while all tenants compete."""

    queue: str
    placed: int = 0
    used: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    running: Counter[str] = field(default_factory=Counter)


class Simulation:
    """Plays the tenants. `placed` is the driver's hook. `decisions` and `rare` (waiting, rejected): (style, text) of
    the latest ones.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.decisions: deque[tuple[str, str]] = deque(maxlen=DECISIONS_KEPT)
        self.rare: deque[tuple[str, str]] = deque(maxlen=DECISIONS_KEPT // 8)
        self.tallies = {tenant.name: Tally(tenant.queue) for tenant in site.tenants}
        self.tallies |= {service.name: Tally(service.queue) for service in site.services}
        self._random = random.Random(site.rm_id)
        self._batches: dict[str, Batch] = {}
        self._number: Counter[str] = Counter()
        self._tasks = itertools.count(1)
        self._ends: list[tuple[float, str, RunningAllocation]] = []
        self._submitted: set[str] = set()
        self._noted: Counter[str] = Counter()
        self.driver: Driver | None = None
        self.contested_s = 0.0  # how long all tenants competed

    def placed(self, new: list[RunningAllocation]) -> None:
        now = time.monotonic()
        for running in new:
            batch = self._batches.get(running.ask.application)
            owner = batch.tenant.name if batch else running.ask.application
            tally = self.tallies[owner]
            tally.placed += 1
            tally.running.update(running.ask.resource)
            if batch:
                seconds = batch.seconds if batch.tenant.together else self._seconds(batch.tenant)
                heapq.heappush(self._ends, (now + seconds, running.uuid, running))
        for running in new[-3:]:
            self.decisions.append(("green", f"placed   {running.ask.key} on {running.node}"))

    def _seconds(self, tenant: Tenant) -> float:
        return self._random.uniform(tenant.shortest_s, tenant.longest_s)

    async def prepare(self, driver: Driver) -> None:
        self.driver = driver
        await driver.report_nodes(self.site.nodes, self.site.attributes)
        wanted = len(self.site.nodes)
        if not await driver.until(lambda: driver.rm_state.nodes >= wanted, ANSWERED_WITHIN_S):
            raise UserError(f"{self.site.rm_id}: only {driver.rm_state.nodes} of {wanted} nodes were accepted in time")

    async def play(self, driver: Driver, seconds: float, without_end: bool = False) -> None:
        """Plays for so many seconds; new work comes only until FED_UNTIL, so that the demo ends quietly.

        `without_end`: new work comes until cancelled, and `seconds` is the time in which tenants and services appear.
        """
        start = last = time.monotonic()
        all_from = max(tenant.starts for tenant in self.site.tenants) + SETTLING
        while (now := time.monotonic()) < start + seconds or without_end:
            part = (now - start) / seconds
            if all_from <= part < FED_UNTIL:
                self._integrate(now - last)
            last = now
            await self._release(driver, now)
            await self._submit_services(driver, part)
            if part < FED_UNTIL or without_end:
                await self._feed(driver, part)
            self._note_decisions(driver)
            await asyncio.sleep(TICK_S)

    def _integrate(self, seconds: float) -> None:
        self.contested_s += seconds
        for tally in self.tallies.values():
            for resource, amount in tally.running.items():
                tally.used[resource] += amount * seconds

    async def _release(self, driver: Driver, now: float) -> None:
        over = []
        while self._ends and self._ends[0][0] <= now:
            over.append(heapq.heappop(self._ends)[2])
        if not over:
            return
        await driver.release(over)
        ended = []
        for running in over:
            batch = self._batches[running.ask.application]
            self.tallies[batch.tenant.name].running.subtract(running.ask.resource)
            batch.left -= 1
            if not batch.left:
                ended.append(running.ask.application)
        if ended:
            await driver.remove(ended)
            for application in ended:
                self.decisions.append(("cyan", f"finished {application}"))

    async def _feed(self, driver: Driver, part: float) -> None:
        waiting: Counter[str] = Counter()
        for ask in driver.rm_state.waiting.values():
            batch = self._batches.get(ask.application)
            if batch:
                waiting[batch.tenant.name] += 1
        for tenant in self.site.tenants:
            if part >= tenant.starts and waiting[tenant.name] < tenant.backlog:
                await self._start_batch(driver, tenant)

    async def _start_batch(self, driver: Driver, tenant: Tenant) -> None:
        self._number[tenant.name] += 1
        application = f"{tenant.name}-{self._number[tenant.name]}"
        self._batches[application] = Batch(tenant, tenant.tasks, self._seconds(tenant) if tenant.together else 0.0)
        await driver.submit(application, tenant.queue, tenant.name)
        tags = _tags(tenant.tags, application)
        await driver.ask([Ask(self._key(), application, tenant.task, tags=tags) for _ in range(tenant.tasks)])

    def _key(self) -> str:
        """A key that no other ask of the RM has, and short: most lists show the application beside it."""
        return f"task-{next(self._tasks)}"

    async def _submit_services(self, driver: Driver, part: float) -> None:
        for service in self.site.services:
            if part >= service.starts and service.name not in self._submitted:
                self._submitted.add(service.name)
                await self._start_services(driver, service)

    async def _start_services(self, driver: Driver, service: ServiceApp) -> None:
        name = service.name
        await driver.submit(name, service.queue, "operator")
        await driver.ask(
            [
                Ask(self._key(), name, service.task, service.priority, _tags(service.tags, name))
                for _ in range(service.tasks)
            ]
        )

    def _note_decisions(self, driver: Driver) -> None:
        """Rejections and reasons to wait that are new since the last time."""
        for reason, count in driver.rm_state.rejected.items():
            if count > self._noted[reason]:
                self._noted[reason] = count
                self.rare.append(("red", f"rejected {reason}"))
        while driver.rm_state.wait_reasons:
            ask, reason = driver.rm_state.wait_reasons.popleft()
            self.rare.append(("yellow", f"waiting  {ask}: {with_units(reason)}"))


def _tags(tags: Mapping[str, str] | None, application: str) -> Mapping[str, str] | None:
    """The tags of an ask. Those of one application are a group."""
    return {**tags, "remuda/topology.group": application} if tags else None
