"""Sends the active configuration to RMs that use the file and have another text.

The distributor compares after each change of a record or of the file, and every few seconds. So a send that fails is
repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import structlog
from watchfiles import awatch

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_proto.remuda.v1 import inbox_pb2

from .. import limits
from ..defaults import Defaults
from .active_configuration import ActiveConfiguration
from .assignments import AssignedConfiguration, Assignments
from .changes import AcceptedText
from .records import RmRecord, read_record

log = structlog.get_logger()


class Distributor:
    def __init__(
        self, bus: Bus, active: ActiveConfiguration | None, assignments: Assignments, defaults: Defaults
    ) -> None:
        self._bus = bus
        self._active = active
        self._assignments = assignments
        self._defaults = defaults
        self._sending = asyncio.Lock()

    async def follow_rms(self) -> None:
        async for entry in self._bus.watch(subjects.RMS.name):
            record = read_record(entry)
            if record is None:
                await self._assignments.remove(subjects.rm_of_key(entry.key))
                continue
            self._assignments.records[record.rm_id] = record
            await self._distribute([record], self._assignments.answer_for(record))

    async def follow_file(self, file: Path) -> None:
        assert self._active is not None
        async for _ in file_changes(file):
            try:
                await self._active.refresh()
            except BusError as error:
                log.warning("the configuration cannot be stored, trying again", error=str(error))
            await self._distribute(list(self._assignments.records.values()))

    async def follow_active(self) -> None:
        """Distributes each version as soon as it is active, also one that another process has stored."""
        assert self._active is not None
        while True:
            await self._active.changed.wait()
            self._active.changed.clear()
            await self._distribute(list(self._assignments.records.values()))

    async def _distribute(self, records: Iterable[RmRecord], arrived: AssignedConfiguration | None = None) -> None:
        """`arrived`: the configuration that an RM has got with its registration."""
        async with self._sending:
            for record in records:
                try:
                    if arrived is not None:
                        await self._assignments.assign(record.rm_id, arrived)
                    if record.uses_file and self._active is not None and self._active.current is not None:
                        await self._send(record, self._active.current)
                except BusError as error:
                    log.warning("configuration not sent, trying again", rm=record.rm_id, error=str(error))

    async def _send(self, record: RmRecord, current: AcceptedText) -> None:
        """Put the configuration into the RM's inbox, unless it was assigned during this registration. A registration
        brings the configuration that was in force before it: a newer one may have been sent too early."""
        rm_id = record.rm_id
        if _has(await self._assignments.assignment_of(rm_id), record, current):
            return
        assigned = await self._assignments.assignment_of(rm_id, refresh=True)
        if _has(assigned, record, current):  # another configuration service was faster
            return
        checksum, source = current.configuration.checksum, current.configuration.source
        to_assign = replace(
            assigned, revision=current.number, checksum=checksum, source=source, registration=record.registration
        )
        if assigned.registration != record.registration and record.config_checksum == checksum:
            await self._assignments.assign(rm_id, to_assign)
            return
        command = inbox_pb2.Command()
        command.configure.rm_id = rm_id
        command.configure.configuration.CopyFrom(current.configuration)
        command.configure.configuration.compatibility = assigned.compatibility
        command.configure.configuration.revision = current.number
        self._defaults.apply(command.configure.configuration, assigned.timing)
        # Every configuration service, also after a restart, sends the same ID, so the stream stores the command once.
        # After a new registration the record's revision is another one, and the command is stored again.
        msg_id = f"configure.{rm_id}.{current.number}.{record.revision}"
        await self._bus.append(subjects.inbox(rm_id), command.SerializeToString(), msg_id=msg_id)
        await self._assignments.assign(rm_id, to_assign)
        log.info("configuration sent", rm=rm_id, revision=current.number, checksum=checksum)


def _has(assigned: AssignedConfiguration, record: RmRecord, current: AcceptedText) -> bool:
    """Whether the RM has got this configuration, or a newer one, during its registration."""
    return assigned.registration == record.registration and assigned.revision >= current.number


log = structlog.get_logger()


async def file_changes(file: Path, interval_s: float = limits.FILE_CHECK_INTERVAL_S) -> AsyncIterator[None]:
    """Yields whenever the file may have changed, and at least every `interval_s` seconds.

    The watch is on folders, not on the file: editors replace a file by a new one, and an update of a ConfigMap replaces
    a link beside it.
    """
    while True:
        folders = _folders(file)
        if not folders:
            await asyncio.sleep(interval_s)
            yield
            continue
        watch = awatch(
            *folders,
            watch_filter=None,
            recursive=False,
            debounce=limits.FILE_SETTLE_MS,
            rust_timeout=int(interval_s * 1000),
            yield_on_timeout=True,
        )
        try:
            async with aclosing(watch):
                async for _ in watch:
                    yield
                    if _folders(file) != folders:
                        break
        except (OSError, RuntimeError) as error:  # a folder was removed, or the system allows no more watches
            log.warning("cannot watch the file, polling it", file=str(file), every_s=interval_s, error=str(error))
            await asyncio.sleep(interval_s)
        yield


def _folders(file: Path) -> list[Path]:
    """The existing ones of two folders: of the file's name, and of its content if the name is a link."""
    try:
        candidates = {file.parent.absolute(), file.resolve().parent}
    except (OSError, RuntimeError):  # links in a circle
        candidates = {file.parent.absolute()}
    return sorted(folder for folder in candidates if folder.is_dir())
