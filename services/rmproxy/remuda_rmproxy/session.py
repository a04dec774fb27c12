"""Which RMs there are, in which state, and what is accepted from whom (000, RM register with scheduler). Pure.

The record of an RM is an entry of the bucket RMS: the core and the configuration service find RMs there. Knows nothing
of applications, nodes and asks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, cast

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si

State = Literal["registering", "registered"]
ConfigSource = Literal["registration", "file", "built-in"]

INVALID = 400
UNPROCESSABLE = 422
OUTAGE = 503


@dataclass(frozen=True, slots=True)
class Rm:
    """What is known of an RM. `registering`: the core has not accepted it yet."""

    rm_id: str
    policy_group: str = ""
    version: str = ""
    config_source: ConfigSource = "built-in"
    state: State = "registering"

    def encode(self) -> bytes:
        fields = {name: getattr(self, name) for name in ("rm_id", "policy_group", "version", "config_source", "state")}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, value: bytes) -> Rm:
        fields = json.loads(value)
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})

    def registered(self) -> Rm:
        return replace(self, state="registered")


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

    def is_registered(self, rm_id: str) -> bool:
        rm = self._rms.get(rm_id)
        return rm is not None and rm.state == "registered"


@dataclass(frozen=True, slots=True)
class Correlation:
    """What a command carries through the core and back, so that whoever reads the Decision, also after a restart, knows
    whose request it answers and what the record of the RM is to say. `id`: a nonce, or the stream sequence of the
    request."""

    kind: Literal["register", "configure"]
    id: str
    config_source: ConfigSource
    policy_group: str = ""

    def encode(self) -> str:
        return f"{self.kind}:{self.id}:{self.config_source}:{self.policy_group}"

    @classmethod
    def decode(cls, text: str) -> Correlation | None:
        """None: it is not one of ours."""
        kind, _, rest = text.partition(":")
        fields = rest.split(":", 2)
        if kind not in ("register", "configure") or len(fields) != 3:
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
    return request


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
