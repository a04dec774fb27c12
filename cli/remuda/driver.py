"""A simulated resource manager: sends through the SDK, keeps a ledger, and lets others wait for what the ledger says.

Knows nothing of what the workload is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import (
    DeadLetter,
    RegistrationFailed,
    ReportWanted,
    ResourceManager,
    Superseded,
    application,
    ask,
    node,
)

from .errors import UserError
from .ledger import Amounts, Ledger, Record, Running

Placed = Callable[[list[Running]], None]


@dataclass(frozen=True, slots=True)
class Ask:
    """One ask for one allocation. `key` is unique over all applications of the RM."""

    key: str
    application: str
    resource: Amounts
    priority: int = 0


class Driver:
    """`async with drive(url, rm_id, ...) as driver`. `placed` is called with every callback's new allocations."""

    def __init__(self, rm: ResourceManager, rm_id: str, record: Record | None, placed: Placed | None) -> None:
        self.rm_id = rm_id
        self.ledger = Ledger(record)
        self._rm = rm
        self._placed: Placed = placed or (lambda new: None)
        self._news = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(), name=f"callbacks of {rm_id}")

    async def close(self) -> None:
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def report_nodes(self, nodes: Mapping[str, Amounts]) -> None:
        for name, capacity in nodes.items():
            self.ledger.reports(name, capacity)
        await self._rm.report_nodes([node(name, resources=capacity) for name, capacity in nodes.items()])

    async def submit(self, application_id: str, queue: str, user: str = "remuda") -> None:
        await self._rm.submit(application(application_id, queue=queue, user=user))

    async def remove(self, application_ids: Iterable[str]) -> None:
        await self._rm.remove(*application_ids)

    async def ask(self, asks: Sequence[Ask]) -> None:
        """Raises what has ended the callbacks, if they have ended."""
        self._check_listening()
        now = time.perf_counter()
        for one in asks:
            self.ledger.asks(one.key, one.application, one.resource, now)
        await self._rm.ask([ask(a.application, a.key, priority=a.priority, resources=a.resource) for a in asks])

    async def release(self, running: Sequence[Running]) -> None:
        """These are over."""
        now = time.perf_counter()
        for one in running:
            self.ledger.releases(one.uuid, now)
        await self._rm.release([_release(one) for one in running])

    async def withdraw(self, key: str, reason: str) -> None:
        """Take back an ask that still waits."""
        waiting = self.ledger.waiting[key]
        self.ledger.withdraws(key, reason)
        await self._rm.release([si.AllocationAskRelease(applicationID=waiting.application, allocationKey=key)])

    async def decommission(self, nodes: Iterable[str]) -> None:
        await self._rm.decommission(*nodes)

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Waits until the ledger is so; False when that takes longer."""
        deadline = time.monotonic() + within_s
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._check_listening()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()
        return True

    def _check_listening(self) -> None:
        if self._listener.done():
            self._listener.result()

    async def _listen(self) -> None:
        """Feeds the ledger, for ever."""
        try:
            async for callback in self._rm.callbacks():
                await self._heard(callback)
                self._news.set()
        finally:
            self._news.set()  # whoever waits must learn that nothing comes any more

    async def _heard(self, callback: object) -> None:
        if isinstance(callback, si.AllocationResponse):
            new = self.ledger.allocations(callback, time.perf_counter())
            unwanted = [running for running in new if self.ledger.withdrawn(running.ask.key)]
            if unwanted:
                await self.release(unwanted)
                new = [running for running in new if not self.ledger.withdrawn(running.ask.key)]
            if new:
                self._placed(new)
        elif isinstance(callback, si.ApplicationResponse):
            self.ledger.application_states(callback)
        elif isinstance(callback, si.NodeResponse):
            self.ledger.node_states(callback)
        elif isinstance(callback, si.UpdateContainerSchedulingStateRequest):
            self.ledger.container_state(callback)
        elif isinstance(callback, DeadLetter):
            self.ledger.faults.append(f"not understood: {callback.reason}")


def _release(one: Running) -> si.AllocationRelease:
    return si.AllocationRelease(
        applicationID=one.ask.application,
        UUID=one.uuid,
        allocationKey=one.ask.key,
        terminationType=si.STOPPED_BY_RM,
    )


@contextlib.asynccontextmanager
async def drive(
    url: str, rm_id: str, *, config: str = "", record: Record | None = None, placed: Placed | None = None
) -> AsyncIterator[Driver]:
    """Registers `rm_id`, with its own queues if `config` (text of a queues.yaml) is given. UserError when it is
    refused, or is not the one any more."""
    try:
        async with ResourceManager.connect(url, rm_id, config=config, version="remuda-cli") as rm:
            driver = Driver(rm, rm_id, record, placed)
            try:
                yield driver
            finally:
                await driver.close()
    except RegistrationFailed as error:
        raise UserError(f"{rm_id} could not register at {url}: {error}") from None
    except (Superseded, ReportWanted) as error:
        raise UserError(f"{rm_id}: {error}") from None
