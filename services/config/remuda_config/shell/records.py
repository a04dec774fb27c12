"""The records of RMs in the bucket RMS, as far as the configuration service reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Entry

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RmRecord:
    """The record of an RM, written by rmproxy.

    `registration`: the number of the newest registration, over all lives. `config_checksum`: of the configuration that
    the RM has got with the registration, or with a later update of its own.
    """

    rm_id: str
    policy_group: str
    config_source: str
    state: str
    revision: int
    registration: str = ""
    config_checksum: str = ""
    extra_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses_file(self) -> bool:
        """Returns whether changes of the file are sent to the RM: it is registered and has sent no text.

        An RM that got the built-in default uses a file that is there later. While an RM registers, the registration
        itself brings the configuration.
        """
        return self.config_source in ("file", "built-in") and self.state == "registered"


def read_record(entry: Entry) -> RmRecord | None:
    """Reads a record; None: it is removed or unreadable. An unreadable record must not stop the service for other
    RMs.
    """
    if entry.value is None:
        return None
    try:
        value = json.loads(entry.value)
    except ValueError as error:
        log.warning("unreadable record of an RM", key=entry.key, error=str(error))
        return None
    return RmRecord(
        rm_id=subjects.rm_of_key(entry.key),
        policy_group=value.get("policy_group", ""),
        config_source=value.get("config_source", ""),
        state=value.get("state", "registered"),
        revision=entry.revision,
        registration=f"{value.get('life', 0)}.{value.get('registration', 0)}",
        config_checksum=value.get("config_checksum", ""),
        extra_config=value.get("extra_config") or {},
    )
