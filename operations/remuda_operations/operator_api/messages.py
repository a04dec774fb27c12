"""Rows of JSON answers as messages: fields go to the fields of the same names. Pure.

Amounts (`{"vcore": 2000}`) become `si.v1.Resource`. A value of null, and a field that only one side knows, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.si.v1 import si_pb2 as si

M = TypeVar("M", bound=Message)
Row = Mapping[str, Any]
RESOURCE = si.Resource.DESCRIPTOR
FIELD_CHANGE = admin.FieldChange.DESCRIPTOR


def filled(message: M, row: Row) -> M:
    """The message with the values of the row. Raises TypeError or ValueError for values of another type."""
    for field in _fields(message.DESCRIPTOR):
        value = row.get(field.name)
        if value is not None:
            _set(message, field, value)
    return message


def amounts(resource: si.Resource) -> dict[str, int]:
    return {name: quantity.value for name, quantity in resource.resources.items()}


def set_amounts(resource: si.Resource, found: Mapping[str, int]) -> None:
    resource.SetInParent()
    for name, amount in found.items():
        resource.resources[name].value = amount


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    kind = field.message_type
    if kind is None:
        if field.is_repeated:
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
    elif kind.GetOptions().map_entry:
        _set_map(getattr(message, field.name), kind, value)
    elif field.is_repeated:
        _add_all(getattr(message, field.name), value)
    else:
        _set_message(getattr(message, field.name), kind, value)


def _set_map(target: Any, entry: Descriptor, value: Row) -> None:
    if entry.fields_by_name["value"].message_type is None:
        target.update(value)
        return
    for key, one in value.items():
        _set_message(target[key], entry.fields_by_name["value"].message_type, one)


def _add_all(target: Any, rows: Iterable[Row]) -> None:
    for row in rows:
        filled(target.add(), row)


def _set_message(target: Any, kind: Descriptor, value: Row) -> None:
    target.SetInParent()
    if kind is RESOURCE:
        set_amounts(target, value)
    elif kind is FIELD_CHANGE:
        target.before, target.after = json.dumps(value.get("before")), json.dumps(value.get("after"))
    else:
        filled(target, value)


@cache
def _fields(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(descriptor.fields)
