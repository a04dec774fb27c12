"""The event publisher: follows the log of every RM and writes what happened into the event history.

Never in a hurry: it runs at a lower priority than whoever decides, falls behind under load and catches up afterwards.
Of several instances the holder of the lease `events` writes; the others wait for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import structlog

from remuda_bus import health, subjects, telemetry
from remuda_bus.bus import Bus, BusError
from remuda_bus.halts import Halts
from remuda_bus.lease import Lease
from remuda_bus.log import LogEntry, LogReader, Position
from remuda_bus.process import Settings
from remuda_events import limits
from remuda_events.alarm import tell_halts
from remuda_events.history import History

log = structlog.get_logger()


async def main(bus: Bus, settings: Settings) -> None:
    os.nice(limits.NICENESS)
    await serve(bus, settings.instance)


async def serve(bus: Bus, instance: str) -> None:
    """Write the history whenever the lease is held. Does not return."""
    lease = Lease(bus, subjects.EVENTS_LEASE, instance)
    try:
        while True:
            health.OWN.say("stands by: another process holds the lease")
            await lease.acquire()
            health.OWN.say("holds the lease: writes the history")
            await _while_held(lease, publish(bus, instance))
    except ExceptionGroup as failures:  # the first of the followers that failed is what there is to say
        raise failures.exceptions[0] from None
    finally:
        await lease.release()


async def publish(bus: Bus, instance: str = "events") -> None:
    """Follow every RM there is or will be."""
    known: set[str] = set()
    halts = Halts(bus, instance, lambda: time.time_ns() // 1_000_000)
    async with asyncio.TaskGroup() as followers:
        followers.create_task(halts.watch())
        followers.create_task(tell_halts(bus))
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            # An RM that has gone may have left something in its log that is not told yet, so it is followed on.
            if entry.value is not None and rm_id not in known:
                known.add(rm_id)
                work = halts.guard(rm_id, partial(follow, bus, rm_id))
                followers.create_task(work, name=f"events of {rm_id}")


async def follow(bus: Bus, rm_id: str) -> None:
    """Write the history of one RM for ever, across outages. Raises ChangedPast."""
    complete: Position | None = None
    lateness = Lateness(rm_id)
    while True:
        try:
            history = await History.open(bus, rm_id, complete)
            try:
                await _write(bus, rm_id, history, lateness)
            finally:
                complete = history.complete
        except BusError as error:
            log.warning("events interrupted, going on where the history ends", rm=rm_id, error=str(error))
            await asyncio.sleep(limits.RETRY_S)


async def _write(bus: Bus, rm_id: str, history: History, lateness: Lateness) -> None:
    reader = await history.read()
    marked = _now()
    try:
        while True:
            entries = await reader.batch(limits.COMMITS_AT_ONCE, timeout_s=limits.MARK_EVERY_S)
            if entries:
                await _let_others_first(reader, entries)
                lateness.check(entries[0].commit.now_ms)
                with _spans(rm_id, entries):
                    await history.tell(entries)
            if _now() - marked >= limits.MARK_EVERY_S:
                await history.mark()
                marked = _now()
    finally:
        await reader.close()


async def _let_others_first(reader: LogReader, entries: list[LogEntry]) -> None:
    """Callbacks and further decisions come before events. Adds the commits that come meanwhile."""
    await asyncio.sleep(limits.AFTER_THE_CALLBACK_S)
    until = _now() + limits.WAIT_AT_MOST_S
    more = entries
    while more and len(entries) < limits.COMMITS_AT_ONCE and _now() < until:
        if max(sum(len(decision.facts) for decision in entry.commit.decisions) for entry in more) < limits.BUSY_FACTS:
            return
        more = await reader.batch(limits.COMMITS_AT_ONCE, timeout_s=limits.QUIET_S)
        entries += more


def _spans(rm_id: str, entries: Sequence[LogEntry]) -> ExitStack:
    """One for every commit that is part of a trace."""
    spans = ExitStack()
    if telemetry.enabled():
        for entry in entries:
            if subjects.TRACEPARENT in entry.headers:
                spans.enter_context(telemetry.span("events.publish", entry.headers, rm=rm_id, log_seq=entry.seq))
    return spans


async def _while_held(lease: Lease, work: Coroutine[Any, Any, None]) -> None:
    """Do the work; returns when the lease is lost, raises what the work raises."""
    working = asyncio.ensure_future(work)
    lost = asyncio.ensure_future(lease.lost())
    try:
        await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        lost.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _now() -> float:
    return asyncio.get_running_loop().time()


class Lateness:
    """Says in the process's log, once a minute, that the history of an RM is behind."""

    def __init__(self, rm_id: str, clock: Callable[[], float] = time.time) -> None:
        self._rm_id = rm_id
        self._clock = clock
        self._said_at = float("-inf")

    def check(self, decided_ms: int) -> None:
        """`decided_ms`: when the oldest commit was decided of which nothing is told yet."""
        now = self._clock()
        late_s = now - decided_ms / 1_000
        if late_s > limits.LATE_S and now - self._said_at >= limits.SAY_SO_EVERY_S:
            self._said_at = now
            log.warning("events are late, catching up", rm=self._rm_id, late_s=round(late_s, 1))
