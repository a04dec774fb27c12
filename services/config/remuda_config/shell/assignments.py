"""The assignments: which configuration each RM on record has.

An assignment is an entry of the bucket CONFIGURATIONS, so that every configuration service knows it, also after a
restart. Only an RM on record has an entry: the registration of another may still be refused, and nothing would remove
the entry then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_config import limits
from remuda_config.extra_config import timing_in
from remuda_config.shell.records import RmRecord
from remuda_config.shell.rm_versions import RmVersions

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AssignedConfiguration:
    """The configuration that an RM was given last.

    `revision`: of the file's text; 0 for any other text. `registration`: the registration during which it was given.
    `timing`: as in its `extraConfig`.
    """

    revision: int = 0
    checksum: str = ""
    source: str = ""
    compatibility: str = "none"
    timing: Mapping[str, str] = field(default_factory=dict)
    registration: str = ""


class Assignments:
    """Knows which RM was given which configuration.

    `records`: all RMs on record. `rm_versions`: the texts that they have brought. `compatibility`: of RMs that have
    asked for none.
    """

    def __init__(self, bus: Bus, compatibility: str) -> None:
        self._bus = bus
        self.rm_versions = RmVersions(bus)
        self._compatibility = compatibility
        self.records: dict[str, RmRecord] = {}
        self._assigned: dict[str, AssignedConfiguration] = {}
        # Configurations that were answered and arrive at the RM with its registration.
        self._answers: dict[str, AssignedConfiguration] = {}

    async def assignment_of(self, rm_id: str, refresh: bool = False) -> AssignedConfiguration:
        """Returns what the RM was given last. `refresh`: read the bucket, since another configuration service may
        have written it.
        """
        if rm_id in self._assigned and not refresh:
            return self._assigned[rm_id]
        entry = await self._bus.get(subjects.CONFIGURATIONS.name, subjects.configuration_key(rm_id))
        if entry is not None and entry.value is not None:
            assigned = AssignedConfiguration(**json.loads(entry.value))
        else:
            assigned = self._initial(rm_id)
        if rm_id in self.records:
            self._assigned[rm_id] = assigned
        return assigned

    def _initial(self, rm_id: str) -> AssignedConfiguration:
        """The assignment of an RM without an entry: the settings of its registration, and no text."""
        extra = self.records[rm_id].extra_config if rm_id in self.records else {}
        return AssignedConfiguration(
            compatibility=extra.get("compatibility", self._compatibility), timing=timing_in(extra)
        )

    async def assign(self, rm_id: str, assigned: AssignedConfiguration) -> None:
        """Writes the entry of an RM on record, unless it is the same, and the version of a text that it has brought."""
        await self.rm_versions.accept(rm_id, assigned.checksum)
        if self._assigned.get(rm_id) == assigned:
            return
        key = subjects.configuration_key(rm_id)
        await self._bus.put(subjects.CONFIGURATIONS.name, key, json.dumps(asdict(assigned)).encode())
        self._assigned[rm_id] = assigned
        if rm_id not in self.records:  # the record was removed meanwhile
            await self.remove(rm_id)

    async def note_answer(self, rm_id: str, assigned: AssignedConfiguration) -> None:
        """Keeps the answer until the RM is registered. When too many are kept, the oldest is dropped."""
        self._answers.pop(rm_id, None)
        self._answers[rm_id] = assigned
        if len(self._answers) > limits.ANSWERS_KEPT:
            del self._answers[next(iter(self._answers))]
        if rm_id in self.records:
            await self.assign(rm_id, assigned)

    def answer_for(self, record: RmRecord) -> AssignedConfiguration | None:
        """Returns the answer that a registration brings along, which is dropped once the RM is registered.

        The RM has this configuration then, also where a newer one was sent before the registration arrived.
        """
        if record.state == "registering":
            return self._answers.get(record.rm_id)
        return self._answers.pop(record.rm_id, None) if record.state == "registered" else None

    async def remove(self, rm_id: str) -> None:
        """Drops everything about an RM whose record is gone.

        rmproxy deletes the entry together with the record; this deletes an entry that was written later.
        """
        self.records.pop(rm_id, None)
        self._answers.pop(rm_id, None)
        self.rm_versions.forget(rm_id)
        if self._assigned.pop(rm_id, None) is None:
            return
        key = subjects.configuration_key(rm_id)
        try:
            entry = await self._bus.get(subjects.CONFIGURATIONS.name, key)
            if entry is not None and entry.value is not None and rm_id not in self.records:
                await self._bus.delete(subjects.CONFIGURATIONS.name, key)
        except BusError as error:
            log.warning("the assignment of a removed RM may remain in the bucket", rm=rm_id, error=str(error))
