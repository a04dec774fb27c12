"""The configuration file as it stands: which text of it is in force, what is wrong with the present one.

The last good text is kept in a bucket, so that a broken file means the same before and after a restart.
Knows nothing of resource managers.
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
from remuda_config.load import decode, load
from remuda_config.problems import Invalid, Problem
from remuda_proto.remuda.v1 import config_pb2

log = structlog.get_logger()

KEY = "file"


@dataclass(frozen=True, slots=True)
class InForce:
    """`revision`: of the text in the bucket; no two texts share one, and a text that comes back gets a new one."""

    text: str
    configuration: config_pb2.Configuration
    revision: int


@dataclass(slots=True)
class Standing:
    """`in_force` None: there has never been a good text. `problems`: of the file as it is, [] when it is in force."""

    bus: Bus
    file: Path
    in_force: InForce | None = None
    problems: list[Problem] = field(default_factory=list)
    _seen: bytes | Problem | None = None

    async def restore(self) -> None:
        """Take up the last good text of an earlier life, if there is one."""
        entry = await self.bus.get(subjects.CONFIGURATIONS.name, KEY)
        if entry is None or entry.value is None:
            return
        kept = json.loads(entry.value)
        refused: list[Problem] = []
        try:
            configuration = await asyncio.to_thread(load, kept["text"], kept["source"])
            self.in_force = InForce(kept["text"], configuration, entry.revision)
        except Invalid as error:  # this version is stricter than the one that accepted it
            refused = error.problems
        if refused:
            log.error("the last good configuration is refused now", problems=[str(problem) for problem in refused])

    async def look(self) -> bool:
        """Read the file again; True when another text is in force now. Logs what changed, or all that is wrong."""
        found = await asyncio.to_thread(self._read)
        if found == self._seen:
            return False
        try:
            text, configuration = await asyncio.to_thread(self._judge, found)
        except Invalid as error:
            self._refuse(found, error.problems)
            return False
        changed = await self._accept(text, configuration)
        self._seen, self.problems = found, []
        return changed

    def _read(self) -> bytes | Problem:
        try:
            return self.file.read_bytes()
        except OSError as error:
            return Problem("", 0, f"{self.file} cannot be read: {error.strerror or error}")

    def _judge(self, found: bytes | Problem) -> tuple[str, config_pb2.Configuration]:
        if isinstance(found, Problem):
            raise Invalid([found])
        text = decode(found)
        if not text.strip():
            # Also what a file looks like while it is being written; the built-in default has to be meant.
            raise Invalid(
                [Problem("", 0, f"{self.file} is empty; the built-in default is what a service without a file has")]
            )
        configuration = load(text, source=str(self.file))
        if problem := too_large(configuration, len(found), self.bus.max_payload):
            raise Invalid([problem])
        return text, configuration

    def _refuse(self, found: bytes | Problem, problems: list[Problem]) -> None:
        self._seen, self.problems = found, problems
        keeps = f"revision {self.in_force.revision} stays in force" if self.in_force else "no configuration is in force"
        shown = [str(problem) for problem in problems]
        log.error("configuration refused", file=str(self.file), keeps=keeps, count=len(shown), problems=shown)

    async def _accept(self, text: str, configuration: config_pb2.Configuration) -> bool:
        before = self.in_force
        revision = await self._keep(text, configuration.checksum)
        self.in_force = InForce(text, configuration, revision)
        if before is not None and before.revision == revision:
            log.info("configuration in force, unchanged", file=str(self.file), revision=revision)
            return False
        changes = difference(before.configuration, configuration) if before else []
        log.info(
            "configuration in force",
            file=str(self.file),
            revision=revision,
            checksum=configuration.checksum,
            changes=changes,
        )
        return True

    async def _keep(self, text: str, checksum: str) -> int:
        """The revision of the text, which is put into the bucket unless it is the newest one there already."""
        bucket = subjects.CONFIGURATIONS.name
        value = json.dumps({"text": text, "source": str(self.file), "checksum": checksum}, ensure_ascii=False).encode()
        while True:
            entry = await self.bus.get(bucket, KEY)
            if entry is not None and entry.value is not None and json.loads(entry.value)["text"] == text:
                return entry.revision
            try:
                return await self.bus.put(bucket, KEY, value, revision=entry.revision if entry else 0)
            except Refused:  # another config service was faster: look at what it put there
                continue


def too_large(configuration: config_pb2.Configuration, text_bytes: int, max_payload: int) -> Problem | None:
    """The problem of a configuration that does not fit into one message."""
    size, most = max(2 * text_bytes, configuration.ByteSize()), max_payload - limits.ROOM_FOR_THE_REST_BYTES
    if size <= most:
        return None
    return Problem("", 0, f"the configuration takes {size} bytes, a message on this bus at most {most}")
