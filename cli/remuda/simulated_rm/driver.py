"""A simulated resource manager: sends requests through the SDK and applies callbacks to its `RmState`.

It does not know the workload.
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
    ReportRequested,
    ResourceManager,
    Superseded,
    application,
    ask,
    node,
)

from ..errors import UserError
from .rm_state import Amounts, Record, RmState, RunningAllocation

OnPlaced = Callable[[list[RunningAllocation]], None]


@dataclass(frozen=True, slots=True)
class Ask:
    """One ask for one allocation. `key` is unique over all applications of the RM."""

    key: str
    application: str
    resource: Amounts
    priority: int = 0
    tags: Mapping[str, str] | None = None


class Driver:
    """`async with drive(url, rm_id, ...) as driver`. `placed` is called with every callback's new allocations."""

    def __init__(self, rm: ResourceManager, rm_id: str, record: Record | None, placed: OnPlaced | None) -> None:
        self.rm_id = rm_id
        self.rm_state = RmState(record)
        self._rm = rm
        self._placed: OnPlaced = placed or (lambda new: None)
        self._changed = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(), name=f"callbacks of {rm_id}")

    async def close(self) -> None:
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def report_nodes(
        self, nodes: Mapping[str, Amounts], attributes: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """`attributes`: by node."""
        for name, capacity in nodes.items():
            self.rm_state.record_node(name, capacity)
        known = attributes or {}
        await self._rm.report_nodes(
            [node(name, resources=capacity, attributes=known.get(name)) for name, capacity in nodes.items()]
        )

    async def submit(self, application_id: str, queue: str, user: str = "remuda") -> None:
        await self._rm.submit(application(application_id, queue=queue, user=user))

    async def remove(self, application_ids: Iterable[str]) -> None:
        await self._rm.remove(*application_ids)

    async def ask(self, asks: Sequence[Ask]) -> None:
        """Submit asks. Raises the exception that has ended the callbacks, if any."""
        self._check_listening()
        now = time.perf_counter()
        for one in asks:
            self.rm_state.record_ask(one.key, one.application, one.resource, now)
        await self._rm.ask(
            [ask(a.application, a.key, priority=a.priority, resources=a.resource, tags=a.tags) for a in asks]
        )

    async def release(self, running: Sequence[RunningAllocation]) -> None:
        """Release these allocations."""
        now = time.perf_counter()
        for one in running:
            self.rm_state.record_release(one.uuid, now)
        await self._rm.release([_release(one) for one in running])

    async def withdraw(self, key: str, reason: str) -> None:
        """Withdraw a pending ask."""
        waiting = self.rm_state.waiting[key]
        self.rm_state.record_withdrawal(key, reason)
        await self._rm.release([si.AllocationAskRelease(applicationID=waiting.application, allocationKey=key)])

    async def decommission(self, nodes: Iterable[str]) -> None:
        await self._rm.decommission(*nodes)

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until the condition on `rm_state` holds. False after `within_s`."""
        deadline = time.monotonic() + within_s
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._check_listening()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        return True

    def _check_listening(self) -> None:
        if self._listener.done():
            self._listener.result()

    async def _listen(self) -> None:
        """Apply callbacks to `rm_state` until cancelled."""
        try:
            async for callback in self._rm.callbacks():
                await self._handle(callback)
                self._changed.set()
        finally:
            self._changed.set()  # wake `until`: no further callbacks come

    async def _handle(self, callback: object) -> None:
        if isinstance(callback, si.AllocationResponse):
            new = self.rm_state.handle_allocations(callback, time.perf_counter())
            unwanted = [running for running in new if self.rm_state.is_withdrawn(running.ask.key)]
            if unwanted:
                await self.release(unwanted)
                new = [running for running in new if not self.rm_state.is_withdrawn(running.ask.key)]
            if new:
                self._placed(new)
        elif isinstance(callback, si.ApplicationResponse):
            self.rm_state.handle_applications(callback)
        elif isinstance(callback, si.NodeResponse):
            self.rm_state.handle_nodes(callback)
        elif isinstance(callback, si.UpdateContainerSchedulingStateRequest):
            self.rm_state.handle_container_state(callback)
        elif isinstance(callback, DeadLetter):
            self.rm_state.faults.append(f"not understood: {callback.reason}")


def _release(one: RunningAllocation) -> si.AllocationRelease:
    return si.AllocationRelease(
        applicationID=one.ask.application,
        UUID=one.uuid,
        allocationKey=one.ask.key,
        terminationType=si.STOPPED_BY_RM,
    )


@contextlib.asynccontextmanager
async def drive(
    url: str,
    rm_id: str,
    *,
    config: str = "",
    record: Record | None = None,
    placed: OnPlaced | None = None,
    temporary: bool = False,
) -> AsyncIterator[Driver]:
    """Registers `rm_id`, with its own queues if `config` (text of a queues.yaml) is given. `temporary`: it deregisters
    at the end and is forgotten. UserError if the registration is refused or superseded."""
    extra = {"forget.after": "0s"} if temporary else None
    try:
        async with ResourceManager.connect(url, rm_id, config=config, version="remuda-cli", extra_config=extra) as rm:
            driver = Driver(rm, rm_id, record, placed)
            try:
                yield driver
            finally:
                await driver.close()
            if temporary:
                await rm.deregister()
    except RegistrationFailed as error:
        raise UserError(f"{rm_id} could not register at {url}: {error}") from None
    except (Superseded, ReportRequested) as error:
        raise UserError(f"{rm_id}: {error}") from None
