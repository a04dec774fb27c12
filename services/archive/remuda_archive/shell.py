"""The archive service: follows the log and the inbox of each RM into the archive.

It runs at a lower priority than the core, falls behind under load and catches up afterwards. Of several processes the
holder of the lease `archive` writes; the others stand by."""

from __future__ import annotations

import asyncio
import os
import time

import structlog

from remuda_archive import limits
from remuda_archive.copying import Copying
from remuda_archive.settings import ArchiveSettings
from remuda_archive.store import Store, StoreFailed
from remuda_archive.tidying import Tidying
from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged
from remuda_bus.retry import pause
from remuda_replication.lease import Lease
from remuda_replication.snapshots import SnapshotListing

log = structlog.get_logger()


async def main(bus: Bus, settings: ArchiveSettings) -> None:
    os.nice(limits.NICENESS)
    store = Store.open(settings.store, settings.option_values)
    lease = Lease(bus, subjects.ARCHIVE_LEASE, settings.instance)
    try:
        while True:
            health.PROCESS_HEALTH.set_status("stands by: another process holds the lease")
            await lease.acquire()
            health.PROCESS_HEALTH.set_status(f"holds the lease: writes {store.where}")
            await lease.run_while_held(archive(bus, store, settings))
    except ExceptionGroup as failures:  # one RM's copy has failed and has ended the others
        raise failures.exceptions[0] from None
    finally:
        await lease.release()


async def archive(bus: Bus, store: Store, settings: ArchiveSettings) -> None:
    """Copy each RM that has a record, until the record is removed, and keep the archive tidy. Runs until cancelled."""
    copying: dict[str, asyncio.Task[None]] = {}
    listing = SnapshotListing(bus)
    tidying = Tidying(store, settings.keep_s, settings.max_bytes, _clock_ms)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tidy(tidying))
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is not None and rm_id not in copying:
                work = copy(Copying(bus, rm_id, store, settings.write_s, listing), rm_id)
                copying[rm_id] = tasks.create_task(work, name=f"archive of {rm_id}")
            elif entry.value is None and rm_id in copying:
                copying.pop(rm_id).cancel()


async def copy(copying: Copying, rm_id: str) -> None:
    """Copy one RM. A store that fails, an outage and a log that was changed are retried without end: the log keeps what
    is not in the archive, until it is trimmed."""
    while True:
        try:
            await copying.run()
        except StoreFailed as error:
            log.error("the archive is not written, trying again", rm=rm_id, error=str(error))
        except HistoryChanged as error:
            log.error("the log is not the one that was archived, trying again", rm=rm_id, error=str(error))
        except BusError as error:
            log.warning("the archive is interrupted, trying again", rm=rm_id, error=str(error))
        await pause(limits.COPY_RETRY)


async def tidy(tidying: Tidying) -> None:
    while True:
        try:
            await tidying.run()
        except StoreFailed as error:
            log.warning("the archive is not tidied, trying again", error=str(error))
        await asyncio.sleep(limits.TIDY_EVERY_S)


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000
