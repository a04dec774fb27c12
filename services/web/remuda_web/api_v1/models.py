"""Messages of the protos as JSON: their schemas, requests from values, answers as values. Pure.

Fields have the names of the protos. Unlike in the JSON mapping of protobuf, 64-bit numbers are numbers, amounts are
`{"vcore": 2000}`, every field is there, and a message that is not set is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from remuda_operations.operator_api.messages import FIELD_CHANGE, RESOURCE, amounts
from remuda_web.problems import Problem, problem_of

M = TypeVar("M", bound=Message)
# Of protobuf, whose types name the classes of two implementations.
Descriptor = Any
_INTEGERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1), FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1), FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}  # fmt: skip
_PLAIN: Final[Mapping[int, Any]] = {
    FieldDescriptor.CPPTYPE_STRING: str, FieldDescriptor.CPPTYPE_BOOL: bool, FieldDescriptor.CPPTYPE_DOUBLE: float,
}  # fmt: skip


class RequestModel(BaseModel):
    """Every field may be left out, none may be there that the proto does not have."""

    model_config = ConfigDict(extra="forbid")


@cache
def request_model(descriptor: Descriptor) -> type[BaseModel]:
    fields: dict[str, Any] = {field.name: (_type(field, request_model) | None, None) for field in descriptor.fields}
    return create_model(descriptor.name, __base__=RequestModel, **fields)


@cache
def answer_model(descriptor: Descriptor) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for field in descriptor.fields:
        shape = _type(field, answer_model)
        fields[field.name] = (shape | None if _may_be_null(field) else shape, ...)
    return create_model(descriptor.name, **fields)


def request_of(kind: type[M], values: Mapping[str, Any]) -> M:
    """The message with these values; strings where they come from a path or a query. Raises Problem."""
    model = request_model(kind.DESCRIPTOR)
    try:
        given = model.model_validate(values).model_dump(exclude_none=True)
        return ParseDict(given, kind())
    except ValidationError as error:
        raise problem_of(error.errors(include_url=False, include_context=False)) from None
    except ParseError as error:
        raise Problem(400, str(error)) from None


def as_json(message: Message) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return {key: _one(kind, one) for key, one in value.items()}
    if field.is_repeated:
        return [_one(field, one) for one in value]
    return None if _may_be_null(field) and not message.HasField(field.name) else _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is RESOURCE:
        return amounts(value)
    if field.message_type is FIELD_CHANGE:
        return {"before": _json(value.before), "after": _json(value.after)}
    if field.message_type is not None:
        return as_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _json(text: str) -> Any:
    return json.loads(text) if text else None


def _may_be_null(field: Any) -> bool:
    return bool(field.has_presence) and field.message_type is not RESOURCE


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _type(field: Any, model: Any) -> Any:
    if _is_map(field):
        return dict[str, _scalar(field.message_type.fields_by_name["value"], model)]  # type: ignore[misc]
    one = _scalar(field, model)
    return list[one] if field.is_repeated else one  # type: ignore[valid-type]


def _scalar(field: Any, model: Any) -> Any:
    if field.message_type is RESOURCE:
        return dict[str, int]
    if field.message_type is FIELD_CHANGE:
        return dict[Literal["before", "after"], Any]
    if field.message_type is not None:
        return model(field.message_type)
    if field.enum_type is not None:
        names = tuple(value.name for value in field.enum_type.values)
        return Literal[names] if model is request_model else str
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        return Annotated[int, Field(ge=low, le=high)]
    return _PLAIN[field.cpp_type]
