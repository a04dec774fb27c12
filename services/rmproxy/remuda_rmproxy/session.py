"""Which RMs there are, in which state, and what is accepted from whom (000, RM register with scheduler). Pure.

The record of an RM is an entry of the bucket RMS: the core and the configuration service find RMs there. Knows nothing
of applications, nodes and asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Literal, cast

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.limits import GONE_AFTER_S, HEARTBEAT_S, SILENT_INTERVALS

State = Literal["registering", "registered", "deregistered", "report_wanted"]
ConfigSource = Literal["registration", "file", "built-in"]

INVALID = 400
NOT_REGISTERED = 404
SUPERSEDED = 409
UNPROCESSABLE = 422
OUTAGE = 503

# In extraConfig.
RESYNC = "resync"
RESYNCS = ("report", "replay")
EVENTS = "events"  # "true": it wants to read events
HEARTBEAT_INTERVAL = "heartbeat.interval"
HEARTBEAT_TIMEOUT = "heartbeat.timeout"


@dataclass(frozen=True, slots=True)
class Rm:
    """What is known of an RM. `registering`: the core has not accepted it yet. `report_wanted`: all that was known of
    it was removed, at the time `life`. `callbacks_after`: the sequence of the stream behind which the callbacks of this
    registration lie."""

    rm_id: str
    policy_group: str = ""
    version: str = ""
    config_source: ConfigSource = "built-in"
    state: State = "registering"
    extra_config: Mapping[str, str] = field(default_factory=dict)
    registration: int = 0
    callbacks_after: int = 0
    life: int = 0

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Rm:
        known = json.loads(value)
        return cls(**{one.name: known[one.name] for one in fields(cls) if one.name in known})

    def deregistered(self, callbacks_after: int) -> Rm:
        return replace(self, state="deregistered", callbacks_after=callbacks_after)

    @property
    def heartbeat(self) -> Heartbeat | None:
        return heartbeat_of(self.extra_config)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What an RM has announced: it is heard every `interval_s`, and gone when it is not for `gone_after_s`."""

    interval_s: float
    gone_after_s: float


DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


class Sessions:
    """The RMs as the bucket tells of them."""

    def __init__(self) -> None:
        self._rms: dict[str, Rm] = {}

    def tell(self, rm_id: str, value: bytes | None) -> Rm | None:
        """An entry of the bucket; None: it is gone."""
        if value is None:
            self._rms.pop(rm_id, None)
            return None
        rm = self._rms[rm_id] = Rm.decode(value)
        return rm

    def get(self, rm_id: str) -> Rm | None:
        return self._rms.get(rm_id)

    def __len__(self) -> int:
        return len(self._rms)

    def in_state(self, state: State) -> Iterator[Rm]:
        return (rm for rm in list(self._rms.values()) if rm.state == state)

    def is_registered(self, rm_id: str) -> bool:
        rm = self._rms.get(rm_id)
        return rm is not None and rm.state == "registered"


@dataclass(frozen=True, slots=True)
class Correlation:
    """What a command carries through the core and back, so that whoever reads the Decision, also after a restart, knows
    whose request it answers and what the record of the RM is to say. `id`: a nonce, the stream sequence of the request,
    or the registration that ends."""

    kind: Literal["register", "configure", "deregister"]
    id: str
    config_source: ConfigSource = "built-in"
    policy_group: str = ""

    def encode(self) -> str:
        return f"{self.kind}:{self.id}:{self.config_source}:{self.policy_group}"

    @classmethod
    def decode(cls, text: str) -> Correlation | None:
        """None: it is not one of ours."""
        kind, _, rest = text.partition(":")
        fields = rest.split(":", 2)
        if kind not in ("register", "configure", "deregister") or len(fields) != 3:
            return None
        return cls(kind, fields[0], cast(ConfigSource, fields[1]), fields[2])  # type: ignore[arg-type]


def read_registration(message: Message) -> si.RegisterResourceManagerRequest:
    """The request, once it is clear whom it is for. Raises Refused 400 that names the field, the value and what was
    expected."""
    rm_id = subjects.rm_of(message.subject)
    try:
        request = si.RegisterResourceManagerRequest.FromString(message.payload)
    except DecodeError as error:
        raise Refused(f"not a RegisterResourceManagerRequest: {error}", INVALID) from None
    try:
        subjects.check_rm_id(request.rmID)
        subjects.check_rm_id(rm_id)
    except ValueError as error:
        raise Refused(str(error), INVALID) from None
    if request.rmID != rm_id:
        raise Refused(f"rmID {request.rmID!r}: the subject {message.subject} is that of {rm_id!r}", INVALID)
    check_extra_config(request.extraConfig)
    return request


def registration_said(message: Message, rm: Rm) -> int:
    """The registration that sender believes in; the present one if it says nothing. Raises ValueError."""
    said = message.headers.get(subjects.REGISTRATION)
    if said is None:
        return rm.registration
    if not said.isdecimal():
        raise ValueError(f"{subjects.REGISTRATION} {said!r}: expected a number")
    return int(said)


def check_extra_config(extra: Mapping[str, str]) -> None:
    """Raises Refused 400."""
    resync = extra.get(RESYNC, RESYNCS[0])
    if resync not in RESYNCS:
        raise Refused(f"extraConfig {RESYNC} {resync!r}: expected {' or '.join(RESYNCS)}", INVALID)
    for name in (HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT):
        if name in extra and seconds_of(extra[name]) is None:
            raise Refused(f"extraConfig {name} {extra[name]!r}: expected a duration like 5s, 500ms or 1m", INVALID)
    heartbeat = heartbeat_of(extra)
    if heartbeat is None:
        return
    least_s, most_s = HEARTBEAT_S
    if not least_s <= heartbeat.interval_s <= most_s:
        raise Refused(
            f"extraConfig {HEARTBEAT_INTERVAL} {extra[HEARTBEAT_INTERVAL]!r}: expected {least_s:g} s to {most_s:g} s",
            INVALID,
        )
    if heartbeat.gone_after_s < SILENT_INTERVALS * heartbeat.interval_s:
        raise Refused(
            f"extraConfig {HEARTBEAT_TIMEOUT} {heartbeat.gone_after_s:g} s: expected at least {SILENT_INTERVALS} times "
            f"{HEARTBEAT_INTERVAL}, {heartbeat.interval_s:g} s",
            INVALID,
        )


def heartbeat_of(extra: Mapping[str, str]) -> Heartbeat | None:
    """None: it has announced none, and is never said to be silent."""
    interval_s = seconds_of(extra.get(HEARTBEAT_INTERVAL, ""))
    if interval_s is None:
        return None
    announced_s = seconds_of(extra.get(HEARTBEAT_TIMEOUT, ""))
    usual_s = max(GONE_AFTER_S, SILENT_INTERVALS * interval_s)
    return Heartbeat(interval_s, usual_s if announced_s is None else announced_s)


@lru_cache(maxsize=1_024)
def seconds_of(text: str) -> float | None:
    """None: it is no duration."""
    found = DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * UNIT_S[found[2]]


def config_source(text: str, configuration: config_pb2.Configuration) -> ConfigSource:
    """Where the configuration of an RM that sent this text (or none) comes from."""
    if text.strip():
        return "registration"
    return "built-in" if configuration.source == "built-in" else "file"


def problems_of(resolved: config_pb2.ResolvedConfiguration) -> str:
    """All problems of a configuration in one line, for the RM; "" when there are none."""
    return "; ".join(
        f"{problem.path}{f' (line {problem.line})' if problem.line else ''}: {problem.message}"
        for problem in resolved.problems
    )
