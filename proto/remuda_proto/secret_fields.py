"""Messages without their secrets, for everything that people read or that is kept for them: logs, traces, dead letters,
stories. A field is secret if the option `si_secret` of its declaration says so (000, si_secret)."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from remuda_proto.si.v1 import si_pb2 as si

HIDDEN = "***"

M = TypeVar("M", bound=Message)


def redacted(message: M) -> M:
    """The message as it is, if its type has no secret fields. Else a copy in which each secret text that is set reads
    `***`, and other secret fields are absent."""
    if not has_secrets(message.DESCRIPTOR):
        return message
    copy = type(message)()
    copy.CopyFrom(message)
    _redact(copy)
    return copy


def is_secret(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[si.si_secret])


@cache
def has_secrets(kind: Descriptor) -> bool:
    """Whether a field of the type, or of a message in it, is secret."""
    return _has_secrets(kind, set())


def _has_secrets(kind: Descriptor, seen: set[str]) -> bool:
    if kind.full_name in seen:
        return False
    seen.add(kind.full_name)
    inner = (field.message_type for field in kind.fields if field.message_type is not None)
    return any(is_secret(field) for field in kind.fields) or any(_has_secrets(one, seen) for one in inner)


def _redact(message: Any) -> None:
    for field, value in message.ListFields():
        if is_secret(field):
            _hide(message, field, value)
        elif field.message_type is not None:
            for inner in _messages_in(field, value):
                _redact(inner)


def _hide(message: Any, field: FieldDescriptor, value: Any) -> None:
    is_list = not isinstance(value, str | bytes | int | float | Message)
    message.ClearField(field.name)
    if field.type != FieldDescriptor.TYPE_STRING:
        return
    if is_list:
        getattr(message, field.name).extend([HIDDEN] * len(value))
    else:
        setattr(message, field.name, HIDDEN)


def _messages_in(field: FieldDescriptor, value: Any) -> list[Any]:
    if isinstance(value, Message):
        return [value]
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        is_message = kind.fields_by_name["value"].message_type is not None
        return list(value.values()) if is_message else []
    return list(value)
