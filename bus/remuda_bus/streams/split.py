"""Splits a protobuf message that is larger than the bus accepts into several of the same type. Pure.

The parts together hold every element of the repeated fields once, in order. Fields that are not repeated are in every
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from remuda_bus import limits
from remuda_proto.si.v1 import si_pb2 as si

M = TypeVar("M", bound=Message)
Path = tuple[str, ...]


# The scheduler handles parts one after the other, so their order must be the order in which it handles one request.
# That is the order of the fields, with one exception: existing allocations are added before asks and releases.
FIRST = {si.AllocationRequest.DESCRIPTOR.full_name: "allocations"}


# Bytes by which an element may grow in its part: of the element, the name of its list, and the position there.
Reserve = Callable[[Message, str, int], int]


def split(request: M, limit: int, reserve: Reserve | None = None) -> list[M]:
    """Split a request into parts of at most `limit` bytes each; [request] when it is not larger. Raises ValueError that
    names the field when one element alone is too large."""
    more = _nothing if reserve is None else reserve
    if reserve is None and request.ByteSize() <= limit:
        return [request]
    empty = type(request)()
    empty.CopyFrom(request)
    paths = list(_repeated(request))
    for path in paths:
        _owner(empty, path).ClearField(path[-1])
    room = limit - empty.ByteSize()
    parts: list[M] = []
    left = -1
    for path in paths:
        elements = getattr(_owner(request, path), path[-1])
        start = 0
        for index, element in enumerate(elements):
            size = element.ByteSize() + limits.AROUND_ELEMENT_BYTES + more(element, path[-1], index)
            if size > left:
                if size > room:
                    raise ValueError(_too_large(request, path, index, size, limit))
                _add(parts, path, elements, start, index)
                part = type(request)()
                part.CopyFrom(empty)
                parts.append(part)
                start, left = index, room
            left -= size
        _add(parts, path, elements, start, len(elements))
    return parts or [request]


def _nothing(element: Message, name: str, position: int) -> int:
    return 0


def _repeated(message: Message) -> Iterator[Path]:
    """Yield the paths of the repeated message fields, at any depth of single messages, in the order of handling."""
    first = FIRST.get(message.DESCRIPTOR.full_name)
    fields: Sequence[Any] = message.DESCRIPTOR.fields
    for field in sorted(fields, key=lambda field: (field.name != first, field.number)):
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            yield (field.name,)
        elif message.HasField(field.name):
            for path in _repeated(getattr(message, field.name)):
                yield (field.name, *path)


def _owner(message: Message, path: Path) -> Message:
    for name in path[:-1]:
        message = getattr(message, name)
    return message


def _add(parts: list[M], path: Path, elements: list[Message], start: int, end: int) -> None:
    if start < end:
        getattr(_owner(parts[-1], path), path[-1]).extend(elements[start:end])


def _too_large(request: Message, path: Path, index: int, size: int, limit: int) -> str:
    where = f"{request.DESCRIPTOR.name}.{'.'.join(path)}[{index}]"
    element = size - limits.AROUND_ELEMENT_BYTES
    return f"{where}: {element} bytes do not fit into {limit} bytes beside the fields that every part repeats"
