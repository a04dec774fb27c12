"""The active configuration: the newest version of the file's text, and the problems of the file's present content.

A version becomes active when it is stored on the bus (`version_store`). It comes from an edit of the file (`refresh`),
from an operator (`update`, `confirm`) or from the deadline of a staged change (`end_stage`). The file follows:
`write_back`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from remuda_bus.bus import Bus, BusError, Refused
from remuda_config import limits
from remuda_config.build import checksum_in, without_checksum
from remuda_config.diff import difference
from remuda_config.file import check_size, read_file, text_of_file
from remuda_config.file_writer import NotWritable, PreparedFile
from remuda_config.problems import Invalid, Problem
from remuda_config.shell.changes import (
    AcceptedText,
    Change,
    NoFallback,
    fallback_of,
    has_fallback,
    now_ms,
)
from remuda_config.shell.version_store import StoredVersion, VersionStore
from remuda_config.shell.worker_pool import WorkerPool
from remuda_config.shell.write_back import WriteBack
from remuda_config.versions import API, EXPIRED, FILE, Version, bounded_changes
from remuda_proto.remuda.v1 import config_pb2

Content = bytes | Problem
log = structlog.get_logger()

CONFLICT = 409


@dataclass(slots=True)
class ActiveConfiguration:
    """The configuration in force for RMs that bring none.

    `current`: None until the file has had a valid text. `problems`: of the file's present content, [] while it is
    active. `changed`: set whenever another version is active; `staged`: set when that version is a staged one.
    """

    bus: Bus
    file: Path
    pool: WorkerPool
    current: AcceptedText | None = None
    problems: list[Problem] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    staged: asyncio.Event = field(default_factory=asyncio.Event)
    versions: VersionStore = field(init=False)
    _write_back: WriteBack = field(init=False)
    _last_read: Content | None = None
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.versions = VersionStore(self.bus)
        self._write_back = WriteBack(self.bus, self.file)

    async def load(self) -> None:
        """Activates the stored version, then the file's text."""
        await self.follow()
        await self._write_back.remove_leftovers()
        await self.end_stage()
        await self.refresh()
        self._loaded.set()

    async def loaded(self) -> None:
        """Waits until `load` is done."""
        await self._loaded.wait()

    async def follow(self) -> None:
        """Activates the version that the bucket has, if it is another one."""
        async with self._changing:
            await self._follow()

    async def _follow(self) -> None:
        stored = await self.versions.newest()
        before = self.current
        # A server of a cluster that is behind may answer with an older one.
        if stored is None or (before is not None and stored.revision <= before.stored.revision):
            return
        if before is not None and (stored.version.number, stored.text) == (before.number, before.text):
            self.current = replace(before, stored=stored)  # a staged change was confirmed
            self._notify()
            return
        try:
            configuration = await self.pool.load(stored.text, stored.version.source, limits.LOAD_FILE_CPU_S)
        except Invalid as error:  # this version of remuda is stricter than the one that accepted the text
            problems = [str(problem) for problem in error.problems]
            log.error("the last valid configuration is refused by this version", problems=problems)
            return
        await self._write_back.read()
        self.current = AcceptedText(stored, configuration)
        self._notify()

    def _notify(self) -> None:
        self.changed.set()
        if self.current is not None and self.current.version.is_staged:
            self.staged.set()

    async def refresh(self) -> bool:
        """Reads the file, and returns whether the active text has changed.

        Activates its text if it was edited and is valid; writes the active text if the file is behind.
        """
        async with self._changing:
            content = await asyncio.to_thread(read_file, self.file)
            if self.current is not None and content == self.current.text.encode():
                await self._settle(content)
                return False
            if self.current is not None and self._write_back.is_due(self.current.text, content):
                await self._catch_up(self.current, content)
                return False
            if content == self._last_read:
                return False
            try:
                text = text_of_file(content, self.file)
                configuration = await self.pool.load(text, str(self.file), limits.LOAD_FILE_CPU_S)
                check_size(configuration, len(text.encode()), self.bus.max_payload)
            except Invalid as error:
                self._refuse(content, error.problems)
                return False
            changed = await self._accept_edit(content, text, configuration)
            if changed is not None:
                await self._settle(content)
            return bool(changed)

    async def _settle(self, content: Content) -> None:
        """The file has the active text."""
        self._last_read, self.problems = content, []
        await self._write_back.done()

    def _refuse(self, content: Content, problems: list[Problem]) -> None:
        self._last_read, self.problems = content, problems
        active = f"revision {self.current.number} stays active" if self.current else "no configuration is active"
        log.error(
            "configuration refused", file=str(self.file), active=active, problems=[str(problem) for problem in problems]
        )

    async def _accept_edit(self, content: Content, text: str, configuration: config_pb2.Configuration) -> bool | None:
        """Store an edit of the file, unless another process has stored it, or a change that overwrites it. An edit ends
        a staged change. None: the file has another content by now, because the bus took long to answer."""
        while True:
            await self._follow()
            if await asyncio.to_thread(read_file, self.file) != content:
                return None
            before = self.current
            if before is not None and before.text == text:
                log.info("active configuration unchanged", file=str(self.file), revision=before.number)
                return False
            if before is not None and self._write_back.is_due(before.text, content):
                return False
            staged = before if before is not None and before.version.is_staged else None
            ends = f"ends the staged version {staged.number}" if staged is not None else ""
            try:
                await self._activate(text, configuration, Change("", ends, FILE))
                return True
            except Refused:  # another process has just stored a version: compare with that one
                continue

    async def update(self, text: str, change: Change) -> bool:
        """Activates a text and writes it to the file. Returns whether it is another text than before.

        Raises Refused: the change is not made; Invalid; Unanswered: it is unknown whether the change is made.
        """
        named = checksum_in(text)
        text = without_checksum(text)
        if not text.strip():
            raise Invalid([Problem("", 0, "the text is empty")])
        configuration = await self.pool.load(text, str(self.file), limits.LOAD_FILE_CPU_S)
        check_size(configuration, len(text.encode()), self.bus.max_payload)
        async with self._changing:
            await self._follow()
            before = self.current
            _check_base(before, change, named)
            if before is not None and change.origin == API and before.version.is_staged:
                await self._check_stuck(before, f"version {before.number} is staged: confirm it or roll it back first")
            if before is not None and before.text == text:
                return False
            content = await self._check_file(before, change)
            try:
                prepared = await self._write_back.prepare(text)
            except NotWritable as error:
                raise Refused(f"{error}; nothing has changed", CONFLICT) from error
            await self._replace(text, configuration, change, content, prepared)
            return True

    async def _check_file(self, before: AcceptedText | None, change: Change) -> Content:
        """The content of the file. Raises Refused when an edit of it is not in force."""
        content = await asyncio.to_thread(read_file, self.file)
        if not change.overwrites and (before is None or content != before.text.encode()):
            why = content.message if isinstance(content, Problem) else f"{self.file} has been edited"
            if self.problems and content == self._last_read:
                why = f"{self.file} has a text that is refused ({self.problems[0]})"
            raise Refused(f"{why}; mend it, or overwrite it (--overwrite)", CONFLICT)
        return content

    async def _replace(
        self, text: str, configuration: config_pb2.Configuration, change: Change, content: Content,
        prepared: PreparedFile | None,
    ) -> None:  # fmt: skip
        """Activate a text and write it over this content of the file. `prepared`: None when it cannot be written
        yet."""
        try:
            await self._write_back.announce(text, content)
            await self._activate(text, configuration, change)
        except BaseException as error:
            if prepared is not None:
                prepared.discard()
            if isinstance(error, Refused):
                raise Refused("another change was made at the same time; nothing has changed", CONFLICT) from error
            raise
        if prepared is None:
            return
        await self._commit(prepared, content)

    async def _commit(self, prepared: PreparedFile, content: Content) -> None:
        """Write the active text over this content of the file. When another version is in force, or the file has been
        edited, its next reading decides.

        Another process may have made two newer versions, of which the second has this content again. So the content
        alone does not show that the text is still the one to write."""
        current = self.current
        assert current is not None
        if not await self._is_in_force(current):
            prepared.discard()
            return
        try:
            if not await self._write_back.commit(prepared, content):
                return
        except NotWritable as error:
            self.problems = [Problem("", 0, f"{error}; tried again until it has the active text")]
            log.error("the active configuration is not in its file", file=str(self.file), error=str(error))
            return
        await self._settle(current.text.encode())
        log.info("configuration written back", file=str(self.file))

    async def _is_in_force(self, current: AcceptedText) -> bool:
        """Whether the version is in force at this moment, as far as can be known. An answer that took long may be
        outdated. A staged version stays in force behind its deadline when what it falls back to is gone."""
        asked_at, version = asyncio.get_running_loop().time(), current.version
        try:
            newest = await self.versions.newest()
            is_over = version.is_staged and now_ms() >= version.until_ms
            if is_over and await has_fallback(current, self.versions, self.pool):
                return False
        except BusError as error:
            log.warning("the file is written later", file=str(self.file), error=str(error))
            return False
        if asyncio.get_running_loop().time() - asked_at > limits.IN_FORCE_S:
            log.warning("the file is written later: the bus answers late", file=str(self.file))
            return False
        return newest is not None and newest.version.number == version.number

    async def _catch_up(self, current: AcceptedText, content: Content) -> None:
        """Write the active text to a file that is behind."""
        self._last_read = content
        try:
            prepared = await self._write_back.prepare(current.text)
        except NotWritable as error:
            self.problems = [Problem("", 0, f"{error}; tried again until it has the active text")]
            return
        await self._commit(prepared, content)

    async def _activate(self, text: str, configuration: config_pb2.Configuration, change: Change) -> None:
        """Store the next version. From then on it is in force. Raises Refused: another one was stored before."""
        before = self.current
        changes = await asyncio.to_thread(difference, before.configuration, configuration) if before else []
        version = Version(
            number=before.number + 1 if before is not None else 1,
            checksum=configuration.checksum,
            source=str(self.file),
            origin=change.origin,
            by=change.by,
            at_ms=now_ms(),
            message=change.message,
            text_bytes=len(text.encode()),
            restores=change.restores,
            until_ms=change.until_ms,
            falls_back_to=before.number if before is not None and change.until_ms else 0,
            changes=bounded_changes(changes),
        )
        stored = await self.versions.append(text, version, before.stored if before is not None else None)
        self.current = AcceptedText(stored, configuration)
        self._notify()
        log.info(
            "configuration activated",
            file=str(self.file),
            revision=version.number,
            origin=version.origin,
            by=version.by,
            checksum=version.checksum,
            changes=version.changes,
        )
        await self._keep(stored)

    async def _keep(self, stored: StoredVersion) -> None:
        try:
            await self.versions.keep(stored)
        except BusError as error:  # it is copied before another version replaces it
            log.warning("a version is not in the history yet", revision=stored.version.number, error=str(error))

    async def confirm(self, by: str, number: int | None) -> Version:
        """Keeps the staged change. Raises Refused when none is open, or another one than `number`."""
        async with self._changing:
            await self._follow()
            current = self.current
            if current is None or not current.version.is_staged:
                raise Refused("no staged change is open", CONFLICT)
            if now_ms() >= current.version.until_ms:
                await self._check_stuck(current, "no staged change is open")
            if number is not None and number != current.number:
                raise Refused(f"version {current.number} is staged, not version {number}", CONFLICT)
            version = current.version.confirmed(by, now_ms())
            try:
                stored = await self.versions.append(current.text, version, current.stored)
            except Refused as error:
                raise Refused("another change was made at the same time", CONFLICT) from error
            self.current = replace(current, stored=stored)
            self._notify()
            log.info("staged configuration confirmed", revision=version.number, by=by)
            await self._keep(stored)
            return version

    async def _check_stuck(self, staged: AcceptedText, otherwise: str) -> None:
        """Raises Refused unless the time of the staged version is over and it stays in force, because the version that
        it falls back to is gone."""
        is_over = now_ms() >= staged.version.until_ms
        if not is_over or await has_fallback(staged, self.versions, self.pool):
            raise Refused(otherwise, CONFLICT)

    async def end_stage(self) -> None:
        """Rolls the staged change back if its time is over. The file is written where it has the staged text."""
        async with self._changing:
            await self._follow()
            current = self.current
            if current is None or not current.version.is_staged or now_ms() < current.version.until_ms:
                return
            try:
                before = await fallback_of(current, self.versions, self.pool)
            except NoFallback as error:
                log.error(
                    "a staged change cannot be rolled back: confirm it, or apply another",
                    revision=current.number, why=str(error),
                )  # fmt: skip
                return
            why = f"version {current.number} was not confirmed in time"
            change = Change("", why, EXPIRED, restores=before.number)
            content = await asyncio.to_thread(read_file, self.file)
            try:
                if content == current.text.encode():
                    prepared = await self._prepare_if_possible(before.text)
                    await self._replace(before.text, before.configuration, change, content, prepared)
                else:  # an edit that is not in force stays in the file
                    await self._activate(before.text, before.configuration, change)
            except Refused:
                log.info("another change was made when the staged one ended", revision=current.number)

    async def _prepare_if_possible(self, text: str) -> PreparedFile | None:
        """None: the file cannot be written now, and is written later."""
        try:
            return await self._write_back.prepare(text)
        except NotWritable as error:
            log.error("the file is not rolled back yet", file=str(self.file), error=str(error))
            return None


def _check_base(before: AcceptedText | None, change: Change, named: str) -> None:
    """Raises Refused when the change was made from another version than the one in force. `named`: the checksum in its
    text."""
    number = before.number if before is not None else 0
    if change.base is not None and change.base != number:
        raise Refused(f"the change was made from version {change.base}, version {number} is in force", CONFLICT)
    if before is not None and named and named != before.configuration.checksum:
        own = before.configuration.checksum
        raise Refused(f"the text was made from one with checksum {named}, version {number} has {own}", CONFLICT)
