"""Runs a `CallbackPublisher` and a `PredicateClient` for each RM, so that no RM waits for another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged, Unanswered, Unreadable
from remuda_bus.retry import pause
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callback_publisher import CallbackPublisher, OnDecision
from remuda_rmproxy.outbound.predicates import PredicateClient
from remuda_rmproxy.records.request_times import RequestTimes

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _RmTasks:
    predicate_client: PredicateClient
    tasks: list[asyncio.Task[None]]
    publisher: CallbackPublisher | None = None  # a new one after each halt: the RM's log may begin anew


class CallbackPublishers:
    """Runs a publisher of callbacks for each RM. The tasks run in `group`. An RM is halted when its log has changed, or
    when an exception is raised twice at the same commit. The publishers of other RMs continue.
    """

    def __init__(
        self, bus: Bus, group: asyncio.TaskGroup, halts: Halts, faults: Faults, on_decision: OnDecision,
        times: RequestTimes | None = None,
    ) -> None:  # fmt: skip
        self._bus = bus
        self._halts = halts
        self._faults = faults
        self._times = times or RequestTimes()
        self._group = group
        self._on_decision = on_decision
        self._tasks_of_rm: dict[str, _RmTasks] = {}
        self._unthrottled: Counter[str] = Counter()
        self._untrimmed: set[str] = set()
        self._openings = asyncio.Semaphore(limits.OPENINGS_AT_ONCE)

    def start_for(self, rm_id: str) -> None:
        """Publishes to this RM from now on. Does nothing if a publisher runs. Raises Unanswered when this process is
        ending.
        """
        if rm_id in self._tasks_of_rm:
            return
        predicate_client = PredicateClient(self._bus, rm_id, self._group, self._faults)
        tasks = [
            self._create_task(predicate_client.run(), f"answers of {rm_id}"),
            self._create_task(self._halts.guard(rm_id, lambda: self._publish(rm_id)), f"callbacks of {rm_id}"),
        ]
        self._tasks_of_rm[rm_id] = _RmTasks(predicate_client, tasks)

    def stop_for(self, rm_id: str) -> None:
        """Ends the publisher of an RM that has no record any more."""
        self._untrimmed.discard(rm_id)
        stopped = self._tasks_of_rm.pop(rm_id, None)
        if stopped is not None:
            for task in stopped.tasks:
                task.cancel()

    def note_dead_letter(self, rm_id: str, callback_seq: int) -> None:
        """Records that a callback about a dead letter was published; `trim` deletes it once acknowledged."""
        running = self._tasks_of_rm.get(rm_id)
        if running is not None and running.publisher is not None:
            running.publisher.note_dead_letter(callback_seq)
            self._untrimmed.add(rm_id)

    @contextmanager
    def unthrottled(self, rm_id: str) -> Iterator[None]:
        """Publishes inside of the block whatever the RM has not acknowledged: a request waits for a decision behind it
        in the log.
        """
        self._unthrottled[rm_id] += 1
        try:
            yield
        finally:
            self._unthrottled[rm_id] -= 1
            if not self._unthrottled[rm_id]:
                del self._unthrottled[rm_id]

    async def trim(self) -> None:
        """Runs until cancelled: deletes acknowledged callbacks at intervals, of those RMs that have untrimmed ones."""
        slots = asyncio.Semaphore(limits.TRIM_CALLBACKS_AT_ONCE)
        while True:
            await asyncio.sleep(limits.TRIM_CALLBACKS_INTERVAL_S)
            rm_ids, self._untrimmed = self._untrimmed, set()
            await asyncio.gather(*(self._trim(rm_id, slots) for rm_id in sorted(rm_ids)))

    async def _trim(self, rm_id: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            running = self._tasks_of_rm.get(rm_id)
            if running is None or running.publisher is None:
                return
            try:
                await running.publisher.trim()
            except BusError as error:
                log.info("callbacks are not trimmed this time", rm=rm_id, error=str(error))
            if not running.publisher.is_trimmed:
                self._untrimmed.add(rm_id)

    async def _publish(self, rm_id: str) -> None:
        """Runs until the RM is halted. Raises HistoryChanged."""
        running = self._tasks_of_rm[rm_id]
        running.publisher = publisher = self._new_publisher(rm_id, running.predicate_client)
        while True:
            try:
                await publisher.run()
            except HistoryChanged:
                raise
            except Unreadable as error:
                log.error("the log cannot be read, trying again", rm=rm_id, error=str(error))
                await pause(limits.UNREADABLE_RETRY)
            except Exception as fault:  # noqa: BLE001 - any exception here is a fault at a commit of this RM alone
                await self._faults.record(rm_id, subjects.LOG.name, publisher.log_seq, fault)
                await pause(limits.PUBLISH_RETRY)

    def _new_publisher(self, rm_id: str, predicate_client: PredicateClient) -> CallbackPublisher:
        return CallbackPublisher(
            self._bus,
            rm_id,
            self._on_decision,
            predicate_client.ask,
            lambda: self._unthrottled[rm_id] > 0,
            lambda: self._untrimmed.add(rm_id),
            self._openings,
            self._times,
        )

    def _create_task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        try:
            return self._group.create_task(work, name=name)
        except RuntimeError:  # the lease is lost while a request is answered
            work.close()
            raise Unanswered("this rmproxy is ending") from None
