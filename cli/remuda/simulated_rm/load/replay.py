"""Replays a trace through the scheduler, in the trace's order.

Arrivals are sent as they come. A departure waits for the answer to its arrival. If the pod runs, its allocation is
released; if the scheduler reports that it waits, its ask is withdrawn. Until then the ask stays pending.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from remuda_bus.bus import Bus

from ..driver import Ask, Driver
from ..pending_reasons import why
from ..rm_state import RunningAllocation
from .one_queue import configuration
from .openb import Node, Pod
from .samples import Samples
from .trace import DAY_S, Step, group, group_sizes, qos_of

ANSWERED_WITHIN_S = 0.5  # after that the core is asked whether an ask waits
PATIENCE_S = 30.0  # so long may a core be away
IDLE_S = 10.0  # an application without pods ends after 30 s: one idle for this long is not used again
NODES_AT_ONCE = 500
QUEUE = "root.trace"
CONFIG = configuration("trace")
# GPUs of the trace on devices, filled so that little of them is wasted.
DEVICES_CONFIG = configuration("trace", "devices: {gpu_milli: 1000}, nodesortpolicy: {type: fragmentation}, ")


class NoAnswer(Exception):
    """The scheduler neither placed an ask nor reported that it waits."""


class Replay:
    """`speed`: trace seconds per second, None for as fast as answers come. It adds to `samples` (time in days), and to
    `departed`, by reason, the pods that left before there was room for them; `done` counts the pods that arrived.
    `queue` is where applications go; `{qos}` in it stands for the quality of service of their pods, in lower case."""

    def __init__(
        self, driver: Driver, bus: Bus, nodes: Sequence[Node], pods: Sequence[Pod], speed: float | None,
        samples: Samples, departed: Counter[str], queue: str,
    ) -> None:  # fmt: skip
        self._samples = samples
        self._departed = departed
        self.time = 0.0
        self.done = 0
        self._driver = driver
        self._bus = bus
        self._nodes = nodes
        self._speed = speed
        self._groups = Applications(driver, group_sizes(pods), queue)
        self._application_of: dict[str, str] = {}

    async def prepare(self) -> None:
        """Report the nodes and wait until all are answered."""
        for start in range(0, len(self._nodes), NODES_AT_ONCE):
            part = self._nodes[start : start + NODES_AT_ONCE]
            await self._driver.report_nodes({node.id: node.capacity for node in part})
        rm_state = self._driver.rm_state
        if not await self._driver.until(
            lambda: rm_state.nodes + rm_state.rejected.total() >= len(self._nodes), PATIENCE_S
        ):
            raise NoAnswer(
                f"{len(self._nodes) - rm_state.nodes} nodes were neither accepted nor rejected in {PATIENCE_S:.0f} s"
            )

    async def run(self, steps: Sequence[Step]) -> None:
        start = time.monotonic()
        for step in steps:
            if self._speed is not None:
                await asyncio.sleep(max(0.0, start + (step.time - steps[0].time) / self._speed - time.monotonic()))
            await (self._arrive(step) if step.arrival else self._depart(step))
            self.time = step.time
        await self._settle()

    async def _arrive(self, step: Step) -> None:
        self._sample(step.time)
        asks = []
        for pod in step.pods:
            application = self._application_of[pod.name] = await self._groups.enter(group(pod))
            asks.append(Ask(pod.name, application, pod.resource))
        await self._driver.ask(asks)
        self.done += len(asks)

    async def _depart(self, step: Step) -> None:
        over: list[RunningAllocation] = []
        for pod in step.pods:
            await self._answered(pod.name)
        self._sample(step.time)
        for pod in step.pods:
            running = self._running(pod.name)
            if running is not None:
                over.append(running)
        if over:
            await self._driver.release(over)
        for pod in step.pods:
            await self._groups.leave(group(pod), self._application_of.pop(pod.name))

    async def _answered(self, key: str) -> None:
        """Returns when the pod runs, was rejected, or was taken back because it waits in vain."""
        rm_state = self._driver.rm_state
        deadline = time.monotonic() + PATIENCE_S
        while key in rm_state.waiting:
            patience_s = rm_state.waiting[key].sent_at + ANSWERED_WITHIN_S - time.perf_counter()
            if await self._driver.until(lambda: key not in rm_state.waiting, patience_s):
                return
            ask = rm_state.waiting.get(key)
            reason = await why(self._bus, self._driver.rm_id, ask.application, key) if ask is not None else None
            if reason is not None and key in rm_state.waiting:
                self._departed[reason] += 1
                await self._driver.withdraw(key, reason)
            elif time.monotonic() > deadline:
                raise NoAnswer(f"pod {key}: not answered in {PATIENCE_S:.0f} s")
            else:
                await self._driver.until(lambda: key not in rm_state.waiting, ANSWERED_WITHIN_S)

    def _running(self, key: str) -> RunningAllocation | None:
        rm_state = self._driver.rm_state
        uuid = rm_state.uuid_of.get(key)
        return rm_state.running[uuid] if uuid is not None else None

    async def _settle(self) -> None:
        """Every pod that stays was answered, and every release was acknowledged."""
        rm_state, stays = self._driver.rm_state, set(self._application_of)
        await self._driver.until(lambda: not any(key in rm_state.waiting for key in stays), 2 * ANSWERED_WITHIN_S)
        if not await self._driver.until(lambda: all(key in stays for key in rm_state.uuid_of), PATIENCE_S):
            raise NoAnswer(f"{len(set(rm_state.uuid_of) - stays)} releases were not acknowledged in {PATIENCE_S:.0f} s")
        self._sample(self.time)

    def _sample(self, time: float) -> None:
        self._samples.add(time / DAY_S, self._driver.rm_state.shares())


class Applications:
    """One application per group of pods, submitted when its first pod arrives and removed after its last has left. The
    scheduler ends an application that is idle for 30 s, so a group that pauses for long continues in a new one."""

    def __init__(self, driver: Driver, sizes: Counter[str], queue: str) -> None:
        self._driver = driver
        self._queue = queue
        self._to_come = sizes
        self._current: dict[str, str] = {}
        self._inside: Counter[str] = Counter()  # pods by application
        self._idle_since: dict[str, float] = {}
        self._generation: Counter[str] = Counter()

    async def enter(self, name: str) -> str:
        """The application for one more pod of the group."""
        application = self._current.get(name)
        if application is None or self._idle_for(application) > IDLE_S:
            self._generation[name] += 1
            number = self._generation[name]
            application = self._current[name] = name if number == 1 else f"{name}-{number}"
            await self._driver.submit(application, self._queue.replace("{qos}", qos_of(name)))
        self._idle_since.pop(application, None)
        self._inside[application] += 1
        self._to_come[name] -= 1
        return application

    async def leave(self, name: str, application: str) -> None:
        self._inside[application] -= 1
        if self._inside[application]:
            return
        self._idle_since[application] = time.monotonic()
        if not self._to_come[name] or self._current[name] != application:
            await self._driver.remove([application])

    def _idle_for(self, application: str) -> float:
        return time.monotonic() - self._idle_since.get(application, time.monotonic())
