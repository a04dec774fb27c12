"""The event service: follows the log of each RM and writes event records into the event history.

It runs at a lower priority than the core, falls behind under load and catches up afterwards. Of several processes the
holder of the lease `events` writes; the others stand by.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import structlog

from remuda_bus import health, subjects, tracing
from remuda_bus.bus import Bus, BusError
from remuda_bus.retry import pause
from remuda_events import limits
from remuda_events.following import follow_log
from remuda_events.history.audit_records import publish_violations
from remuda_events.history.event_history import EventHistory
from remuda_events.history.halt_records import publish_halts
from remuda_events.ledger.follower import end_ledger
from remuda_events.ledger.followers import Ledgers
from remuda_events.quiet import wait_for_quiet_log
from remuda_events.settings import EventsSettings
from remuda_events.story_queries import StoryQueries
from remuda_events.stream_metrics import measure_streams
from remuda_replication.lease import Lease
from remuda_replication.log import LogEntry, LogReader
from remuda_replication.rms.faults import EVENTS_OF_LOG, Faults
from remuda_replication.rms.halts import Halts

log = structlog.get_logger()


async def main(bus: Bus, settings: EventsSettings) -> None:
    os.nice(limits.NICENESS)
    await serve(bus, settings.instance, settings.ledger_tags if settings.ledger else None)


async def serve(bus: Bus, instance: str, ledger_tags: Sequence[str] | None = None) -> None:
    """Answer queries for stories, and write the history and the ledger while this process holds the lease.
    `ledger_tags`: None: no ledger is kept. Runs until cancelled."""
    await StoryQueries(bus).serve()
    measuring = asyncio.ensure_future(measure_streams(bus))
    lease = Lease(bus, subjects.EVENTS_LEASE, instance)
    try:
        while True:
            health.PROCESS_HEALTH.set_status("stands by: another process holds the lease")
            await lease.acquire()
            health.PROCESS_HEALTH.set_status("holds the lease: writes the history")
            await lease.run_while_held(publish(bus, instance, ledger_tags))
    except ExceptionGroup as failures:  # one follower has failed and has ended the others
        raise failures.exceptions[0] from None
    finally:
        measuring.cancel()
        await lease.release()


async def publish(bus: Bus, instance: str = "events", ledger_tags: Sequence[str] | None = None) -> None:
    """Follow each RM that has a record, until the record is removed. Runs until cancelled."""
    following: dict[str, list[asyncio.Task[None]]] = {}
    halts = Halts(bus, instance, _clock_ms)
    faults, openings = Faults(bus, halts, instance, _clock_ms), asyncio.Semaphore(limits.OPENINGS_AT_ONCE)
    ledgers = None if ledger_tags is None else Ledgers(bus, ledger_tags, faults, openings)
    async with asyncio.TaskGroup() as followers:
        followers.create_task(halts.watch())
        followers.create_task(publish_halts(bus))
        followers.create_task(publish_violations(bus))
        if ledgers is None:
            followers.create_task(end_ledgers(bus))
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            # The log of an RM that has deregistered may contain commits without records, so it is still followed.
            if entry.value is not None and rm_id not in following:
                works = [partial(follow_rm, bus, rm_id, faults, openings)]
                if ledgers is not None:
                    works.append(partial(ledgers.follow_rm, rm_id))
                following[rm_id] = [
                    followers.create_task(halts.guard(rm_id, work), name=f"events of {rm_id}") for work in works
                ]
            elif entry.value is None and rm_id in following:
                for task in following.pop(rm_id):
                    task.cancel()


async def follow_rm(bus: Bus, rm_id: str, faults: Faults, openings: asyncio.Semaphore) -> None:
    """Write the history of one RM until the RM is halted; outages are retried. Raises HistoryChanged."""
    last: EventHistory | None = None
    lag_warning = LagWarning(rm_id)

    async def opened() -> EventHistory:
        nonlocal last
        last = await EventHistory.open(bus, rm_id, last.complete if last is not None else None)
        return last

    await follow_log(
        rm_id, EVENTS_OF_LOG, "where the history of events ends", openings, faults, opened, EventHistory.open_log,
        lambda history, reader: _write(rm_id, history, reader, lag_warning),
    )  # fmt: skip


async def _write(rm_id: str, history: EventHistory, reader: LogReader, lag_warning: LagWarning) -> None:
    """A bookmark is due BOOKMARK_INTERVAL_S after the first records behind the last bookmark. An idle RM costs
    nothing."""
    bookmark_at: float | None = None
    while True:
        patience_s = None if bookmark_at is None else max(0.0, bookmark_at - _now())
        entries = await reader.batch(limits.COMMITS_AT_ONCE, timeout_s=patience_s)
        if entries:
            await wait_for_quiet_log(reader, entries)
            lag_warning.check(entries[0].commit.now_ms)
            with _spans(rm_id, entries):
                await history.append_events(entries)
            bookmark_at = _now() + limits.BOOKMARK_INTERVAL_S if bookmark_at is None else bookmark_at
        if bookmark_at is not None and _now() >= bookmark_at:
            await history.write_bookmark()
            bookmark_at = None


def _spans(rm_id: str, entries: Sequence[LogEntry]) -> ExitStack:
    """A span for each commit that is part of a trace."""
    spans = ExitStack()
    if tracing.enabled():
        for entry in entries:
            if subjects.TRACEPARENT in entry.headers:
                spans.enter_context(tracing.span("events.publish", entry.headers, rm=rm_id, log_seq=entry.seq))
    return spans


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _now() -> float:
    return asyncio.get_running_loop().time()


async def end_ledgers(bus: Bus) -> None:
    """End the ledgers that were kept before."""
    while True:
        try:
            for entry in await bus.entries(subjects.EVENT_BOOKMARKS.name):
                rm_id = subjects.rm_of_ledger_key(entry.key)
                if rm_id is not None and entry.value is not None:
                    await end_ledger(bus, rm_id)
            return
        except BusError as error:
            log.warning("ledgers are not ended, trying again", error=str(error))
        await pause(limits.HISTORY_RETRY)


class LagWarning:
    """Logs, at most once a minute, that the history of an RM is behind its log."""

    def __init__(self, rm_id: str, clock: Callable[[], float] = time.time) -> None:
        self._rm_id = rm_id
        self._clock = clock
        self._warned_at = float("-inf")

    def check(self, decided_ms: int) -> None:
        """`decided_ms`: the time of the oldest commit without records."""
        now = self._clock()
        late_s = now - decided_ms / 1_000
        if late_s > limits.LAG_WARNING_S and now - self._warned_at >= limits.LAG_WARNING_INTERVAL_S:
            self._warned_at = now
            log.warning("events are late, catching up", rm=self._rm_id, late_s=round(late_s, 1))
