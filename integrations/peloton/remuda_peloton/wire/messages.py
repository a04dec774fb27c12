"""Values as protobuf messages of the same field names, and back: writers and readers follow from the types of fields.
Facts are messages of log.proto.

Amounts are lists of doubles, pairs of a task and its run are `TaskRun`. None and what is missing are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from remuda_proto.remuda.resmgr.v1 import log_pb2 as pb

from ..facts import Fact, kinds

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
PAIR: Final = tuple[str, str]


def codec(kind: type[Any], message_type: Any = None) -> tuple[Write, Read]:
    """How to write a struct, and how to read it. `message_type`: of the same name in log.proto, if not given."""
    found = _codecs.get(kind)
    if found is None:
        found = _codecs[kind] = _of_struct(kind, message_type or getattr(pb, kind.__name__))
    return found


_codecs: dict[type[Any], tuple[Write, Read]] = {}


def _of_struct(kind: type[Any], message_type: Any) -> tuple[Write, Read]:
    plain: list[str] = []
    converted: list[tuple[str, bool, Write, Read]] = []
    for name, hint in get_type_hints(kind).items():
        optional = get_origin(hint) in (UnionType, Union)
        if optional:
            hint = next(one for one in get_args(hint) if one is not NoneType)
        conversion = _conversion(hint)
        if conversion is not None or optional:
            converted.append((name, optional, *(conversion or (_same, _same))))
        else:
            plain.append(name)

    def write(value: Any) -> Any:
        fields = {name: getattr(value, name) for name in plain}
        for name, _, to_message, _ in converted:
            field = getattr(value, name)
            if field is not None:
                fields[name] = to_message(field)
        return message_type(**fields)

    def read(message: Any) -> Any:
        fields = {name: getattr(message, name) for name in plain}
        for name, optional, _, from_message in converted:
            missing = optional and not message.HasField(name)
            fields[name] = None if missing else from_message(getattr(message, name))
        return kind(**fields)

    return write, read


def _same(value: Any) -> Any:
    return value


def _conversion(hint: Any) -> tuple[Write, Read] | None:
    """None: protobuf stores the field as it is."""
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others != [...] or first is str or first is int:
            return _same, tuple
        if first == PAIR:
            return _pairs, _read_pairs
        write, read = codec(first)
        return (lambda values: [write(one) for one in values]), (lambda messages: tuple(map(read, messages)))
    return codec(hint) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[pb.TaskRun]:
    return [pb.TaskRun(task_id=task_id, run_id=run_id) for task_id, run_id in pairs]


def _read_pairs(messages: Any) -> tuple[tuple[str, str], ...]:
    return tuple((one.task_id, one.run_id) for one in messages)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


_WRITERS: Final = {kind: (_snake(kind.__name__), codec(kind)[0]) for kind in kinds()}
_READERS: Final = {_snake(kind.__name__): codec(kind)[1] for kind in kinds()}


def write_fact(fact: Fact) -> pb.Fact:
    name, write = _WRITERS[type(fact)]
    message: dict[str, Any] = {name: write(fact)}
    return pb.Fact(**message)


def read_fact(message: pb.Fact) -> Fact:
    """The fact of a message. Raises KeyError for a fact that this version does not know."""
    kind = message.WhichOneof("fact")
    fact: Fact = _READERS[kind or ""](getattr(message, kind or ""))
    return fact
