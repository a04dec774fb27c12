"""Answers `remuda.api.config.current`: JSON of the configuration of each RM, and of the file's problems."""

from __future__ import annotations

import json
from dataclasses import asdict

from remuda_config import limits
from remuda_config.build import BUILT_IN, checksum
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.assignments import Assignments
from remuda_config.shell.records import RmRecord


async def answer_current(active: ActiveConfiguration | None, assignments: Assignments, compatibility: str) -> bytes:
    if active is not None:
        await active.loaded()
    current = active.current if active else None
    revision = current.number if current else 0
    records = sorted(assignments.records.values(), key=lambda record: record.rm_id)
    answer = {
        "built_in": checksum(BUILT_IN),
        "compatibility": compatibility,
        "file": active
        and {
            "path": str(active.file),
            "checksum": current and current.configuration.checksum,
            "revision": current and current.number,
            "version": current and current.version.summary(),
            "problems": [asdict(problem) for problem in active.problems[: limits.MAX_PROBLEMS]],
        },
        "rms": [await _describe(record, assignments, revision) for record in records],
    }
    return json.dumps(answer).encode()


async def _describe(record: RmRecord, assignments: Assignments, revision: int) -> dict[str, object]:
    assigned = await assignments.assignment_of(record.rm_id)
    return {
        "rm_id": record.rm_id,
        "policy_group": record.policy_group,
        "config_source": record.config_source,
        "state": record.state,
        **asdict(assigned),
        "waits": record.uses_file and assigned.revision != revision,
    }
