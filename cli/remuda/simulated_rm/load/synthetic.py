"""A synthetic load: equal nodes, applications and asks, submitted at a rate or without limit."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from remuda_bus.bus import Bus

from ..driver import Ask, Driver
from ..rm_state import RmState, RunningAllocation
from .one_queue import configuration
from .replay import NoAnswer
from .samples import Samples

NODE = {"vcore": 32_000, "memory": 128 * 1024**3}
ASK = {"vcore": 1_000, "memory": 3 * 1024**3}
ASKS_AT_ONCE = 5_000
TICK_S = 0.02  # how often asks are sent, and allocations released, when there is a rate or a duration
SAMPLE_EVERY_S = 0.05
QUIET_S = 1.5  # when nothing is placed for so long, the rest waits
LOOK_EVERY_S = 0.2
PATIENCE_S = 30.0
QUEUE = "root.load"
CONFIG = configuration("load")


class Synthetic:
    """A workload of equal asks. `rate`: asks per second, None for as fast as possible; `duration_s`: how long each
    runs, None for ever.
    """

    unit = "seconds"
    notes: Sequence[str] = ()

    def __init__(
        self, nodes: int, apps: int, asks: int, rate: float | None, duration_s: float | None, queue: str
    ) -> None:
        """`queue`: of the scheduler's configuration; empty: of one that the load brings."""
        self.config = "" if queue else CONFIG
        self.title = f"{nodes:,} nodes, {apps:,} applications with {asks:,} asks each"
        self.departed: Counter[str] = Counter()
        self.samples = Samples()
        self.total = apps * asks
        self._nodes = nodes
        self._apps = apps
        self._rate = rate
        self._duration_s = duration_s
        self._queue = queue or QUEUE
        self._ends: list[tuple[float, str, RunningAllocation]] = []
        self._start = 0.0

    def placed(self, new: list[RunningAllocation]) -> None:
        """Notes when each allocation is over; the driver's hook."""
        if self._duration_s is not None:
            end = time.monotonic() + self._duration_s
            for running in new:
                heapq.heappush(self._ends, (end, running.uuid, running))

    async def _prepare(self, driver: Driver) -> None:
        """Nodes and applications, answered."""
        await driver.report_nodes({f"node-{number:05}": NODE for number in range(self._nodes)})
        for number in range(self._apps):
            await driver.submit(_application(number), self._queue)
        rm_state, wanted = driver.rm_state, self._nodes + self._apps
        if not await driver.until(
            lambda: rm_state.nodes + rm_state.applications + rm_state.rejected.total() >= wanted, PATIENCE_S
        ):
            raise NoAnswer(f"nodes and applications were not all answered in {PATIENCE_S:.0f} s")

    def progress(self, rm_state: RmState) -> tuple[int, str]:
        return rm_state.placed + rm_state.rejected_asks, f"{len(rm_state.waiting):,} wait"

    async def run(self, driver: Driver, _: Bus) -> None:
        """Returns when every ask is placed or rejected (and released again), or nothing happens any more."""
        await self._prepare(driver)
        self._start = time.monotonic()
        sampler = asyncio.create_task(self._sample(driver))
        releaser = asyncio.create_task(self._release_when_over(driver))
        try:
            await self._send(driver)
            await self._until_quiet(driver)
        finally:
            sampler.cancel()
            releaser.cancel()
            results = await asyncio.gather(sampler, releaser, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _send(self, driver: Driver) -> None:
        asks = self._asks()
        start, sent = time.monotonic(), 0
        while True:
            due = ASKS_AT_ONCE if self._rate is None else int((time.monotonic() - start) * self._rate) + 1 - sent
            if due > 0:
                batch = list(islice(asks, due))
                if not batch:
                    return
                await driver.ask(batch)
                sent += len(batch)
            if self._rate is not None:
                await asyncio.sleep(TICK_S)

    def _asks(self) -> Iterator[Ask]:
        """Round robin over the applications."""
        for number in range(self.total):
            application = _application(number % self._apps)
            yield Ask(f"{application}-{number // self._apps}", application, ASK)

    async def _until_quiet(self, driver: Driver) -> None:
        """Also samples end here: that nothing happens for a while is not worth a plot."""
        seen, since = self._state(driver), time.monotonic()
        while not await driver.until(lambda: self._over(driver), LOOK_EVERY_S):
            now = self._state(driver)
            if now != seen:
                seen, since = now, time.monotonic()
            patience_s = QUIET_S if driver.rm_state.placed else PATIENCE_S / 3
            if time.monotonic() - since > patience_s and (self._duration_s is None or not driver.rm_state.running):
                break
        self.samples.end(since - self._start + LOOK_EVERY_S)

    def _state(self, driver: Driver) -> tuple[int, int, int]:
        rm_state = driver.rm_state
        return rm_state.placed, rm_state.released, rm_state.rejected_asks

    def _over(self, driver: Driver) -> bool:
        return not driver.rm_state.waiting and (self._duration_s is None or not driver.rm_state.running)

    async def _release_when_over(self, driver: Driver) -> None:
        while self._duration_s is not None:
            now, over = time.monotonic(), []
            while self._ends and self._ends[0][0] <= now:
                over.append(heapq.heappop(self._ends)[2])
            if over:
                await driver.release(over)
            await asyncio.sleep(TICK_S)

    async def _sample(self, driver: Driver) -> None:
        while True:
            self.samples.add(time.monotonic() - self._start, driver.rm_state.shares())
            await asyncio.sleep(SAMPLE_EVERY_S)


def _application(number: int) -> str:
    return f"app-{number:04}"
