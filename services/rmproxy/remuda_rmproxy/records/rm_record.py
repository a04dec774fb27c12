"""The record of an RM: one entry of the bucket RMS, in which the core and the configuration service find the RMs.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Literal

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.untrusted import number_in
from remuda_proto.remuda.v1 import config_pb2
from remuda_rmproxy.records.extra_config import FORGET_AFTER, AnnouncedHeartbeat, announced_heartbeat, seconds_of

State = Literal["registering", "registered", "deregistered", "report_wanted", "forgetting"]
ConfigSource = Literal["registration", "file", "built-in"]


@dataclass(frozen=True, slots=True)
class RmRecord:
    """States:

    - `registering`: the core has not accepted the RM yet.
    - `registered`, `deregistered`: by the newest decision of the core.
    - `report_wanted`: an operator has removed the RM's log (`remuda rebuild`), and the RM has to report again.
    - `forgetting`: rmproxy is removing everything that is stored of the RM.

    `registration`: the number of the newest registration. `callbacks_after`: the callbacks of this registration follow
    this sequence of CALLBACKS. `life`: registrations count from 1 in each life; a new life begins when the RM's data
    has been removed. `deregistered_ms`: milliseconds since 1970; 0: not known. `config_checksum`: of the configuration
    in the newest registration or update by the RM."""

    rm_id: str
    policy_group: str = ""
    version: str = ""
    config_source: ConfigSource = "built-in"
    state: State = "registering"
    extra_config: Mapping[str, str] = field(default_factory=dict)
    registration: int = 0
    callbacks_after: int = 0
    life: int = 0
    deregistered_ms: int = 0
    config_checksum: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> RmRecord:
        """Reads a record. Fields that this version does not know are dropped.

        Raises ValueError, TypeError, KeyError.
        """
        found = json.loads(value)
        return cls(**{one.name: found[one.name] for one in fields(cls) if one.name in found})

    def deregistered(self, callbacks_after: int, now_ms: int = 0) -> RmRecord:
        return replace(self, state="deregistered", callbacks_after=callbacks_after, deregistered_ms=now_ms)

    @property
    def forget_after_s(self) -> float | None:
        """Returns the announced time from deregistration to removal; None: the RM announces none, and the setting
        applies.
        """
        return seconds_of(self.extra_config.get(FORGET_AFTER, ""))

    @property
    def heartbeat(self) -> AnnouncedHeartbeat | None:
        return announced_heartbeat(self.extra_config)


def stated_registration(message: Message, record: RmRecord) -> int:
    """Returns the registration that the sender of a message states; the newest one where it states none. Raises
    ValueError.
    """
    return number_in(message.headers, subjects.REGISTRATION, record.registration)


def config_source(text: str, configuration: config_pb2.Configuration) -> ConfigSource:
    """Returns the source of the configuration of an RM that sent this text (or an empty one)."""
    if text.strip():
        return "registration"
    return "built-in" if configuration.source == "built-in" else "file"
