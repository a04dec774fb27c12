"""The active configuration: the last valid text of the configuration file, and the problems of its present text.

The last valid text is stored in the bucket CONFIGURATIONS, so that it stays active after a restart, also while the file
is broken.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_config import limits
from remuda_config.diff import difference
from remuda_config.file import check_size, read_file, text_of_file
from remuda_config.problems import Invalid, Problem
from remuda_config.shell.worker_pool import WorkerPool
from remuda_proto.remuda.v1 import config_pb2

log = structlog.get_logger()

KEY = "file"


@dataclass(frozen=True, slots=True)
class AcceptedText:
    """`revision`: of the text in the bucket. No two texts share a revision, and a text that is restored gets a new
    one."""

    text: str
    configuration: config_pb2.Configuration
    revision: int


@dataclass(slots=True)
class ActiveConfiguration:
    """`current`: None until the file has had a valid text. `problems`: of the file's present text, [] while it is
    active."""

    bus: Bus
    file: Path
    pool: WorkerPool
    current: AcceptedText | None = None
    problems: list[Problem] = field(default_factory=list)
    _last_read: bytes | Problem | None = None
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def load(self) -> None:
        """Activate the stored text, then the file's."""
        await self.restore()
        await self.refresh()
        self._loaded.set()

    async def loaded(self) -> None:
        """Wait until `load` is done."""
        await self._loaded.wait()

    async def restore(self) -> None:
        """Activate the text that the bucket has, if there is one."""
        entry = await self.bus.get(subjects.CONFIGURATIONS.name, KEY)
        if entry is None or entry.value is None:
            return
        stored = json.loads(entry.value)
        try:
            configuration = await self.pool.load(stored["text"], stored["source"], limits.LOAD_FILE_CPU_S)
        except Invalid as error:  # this version is stricter than the one that accepted the text
            problems = [str(problem) for problem in error.problems]
            log.error("the last valid configuration is refused by this version", problems=problems)
            return
        self.current = AcceptedText(stored["text"], configuration, entry.revision)

    async def refresh(self) -> bool:
        """Read the file, and activate its text if it is valid and another one. Whether the active text has changed."""
        content = await asyncio.to_thread(read_file, self.file)
        if content == self._last_read:
            return False
        try:
            text = text_of_file(content, self.file)
            configuration = await self.pool.load(text, str(self.file), limits.LOAD_FILE_CPU_S)
            check_size(configuration, len(text.encode()), self.bus.max_payload)
        except Invalid as error:
            self._refuse(content, error.problems)
            return False
        changed = await self._activate(text, configuration)
        self._last_read, self.problems = content, []
        return changed

    def _refuse(self, content: bytes | Problem, problems: list[Problem]) -> None:
        self._last_read, self.problems = content, problems
        active = f"revision {self.current.revision} stays active" if self.current else "no configuration is active"
        log.error(
            "configuration refused", file=str(self.file), active=active, problems=[str(problem) for problem in problems]
        )

    async def _activate(self, text: str, configuration: config_pb2.Configuration) -> bool:
        before = self.current
        revision = await self._store(text, configuration.checksum)
        self.current = AcceptedText(text, configuration, revision)
        if before is not None and before.revision == revision:
            log.info("active configuration unchanged", file=str(self.file), revision=revision)
            return False
        changes = await asyncio.to_thread(difference, before.configuration, configuration) if before else []
        log.info(
            "configuration activated",
            file=str(self.file),
            revision=revision,
            checksum=configuration.checksum,
            changes=changes,
        )
        return True

    async def _store(self, text: str, checksum: str) -> int:
        """Put the text into the bucket, unless it is the newest one there. Its revision."""
        bucket = subjects.CONFIGURATIONS.name
        value = json.dumps({"text": text, "source": str(self.file), "checksum": checksum}, ensure_ascii=False).encode()
        while True:
            entry = await self.bus.get(bucket, KEY)
            if entry is not None and entry.value is not None and json.loads(entry.value)["text"] == text:
                return entry.revision
            try:
                return await self.bus.put(bucket, KEY, value, revision=entry.revision if entry else 0)
            except Refused:  # another configuration service has just stored a text: compare with that one
                continue
