"""The part of a request that a dead letter keeps: its content without secrets."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError

from remuda_bus.bus import Message
from remuda_proto.secret_fields import has_secrets, redacted
from remuda_proto.si.v1 import si_pb2 as si

REQUESTS: Final[dict[str, type[Any]]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
    "configuration": si.UpdateConfigurationRequest,
}


def kept_content(message: Message) -> bytes:
    """The payload, if its kind has no secret fields. Else the payload without secrets; nothing of one that cannot be
    read, because it may hold any."""
    kind = REQUESTS.get(message.subject.rpartition(".")[2])
    if kind is None or not has_secrets(kind.DESCRIPTOR):
        return message.payload
    try:
        return bytes(redacted(kind.FromString(message.payload)).SerializeToString())
    except DecodeError:
        return b""
