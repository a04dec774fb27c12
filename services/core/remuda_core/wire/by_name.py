"""Values and messages whose fields have the same names, both ways: readers and writers follow from the types of fields.

    a struct                 a message
    a tuple                  a repeated field
    Resource                 si.v1.Resource
    another mapping          a map
    None                     a message that is missing

Messages and fields that differ from this have conversions of their own. In the messages of `schema` resources and tags
are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass

from remuda_proto.si.v1 import si_pb2 as si

from .resources import RESOURCES, TAGS, read_resource, write_resource
from .schema import FILES

Convert = Callable[[Any], Any]


class Conversion(NamedTuple):
    """How a value becomes what protobuf stores, and is read from it. A writer may return None: then the field is not
    written."""

    write: Convert
    read: Convert


class ByName:
    """`special`: conversions by the full name of a message, or of a field."""

    def __init__(self, special: Mapping[str, Conversion]) -> None:
        self.special = special
        self._known: dict[tuple[type[Any], str], Conversion] = {}

    def of(self, kind: type[Any], message_type: Any, but: tuple[str, ...] = ()) -> Conversion:
        """How to write values of a struct as such messages, and how to read them. `but`: fields that the message does
        not have by that name; they are read as their defaults."""
        key = (kind, message_type.DESCRIPTOR.full_name)
        known = self._known.get(key)
        if known is None:
            self._known[key] = _later(self._known, key)  # it may be below itself, as placement rules are
            known = self._known[key] = self._compiled(kind, message_type, but)
        return known

    def _compiled(self, kind: type[Any], message_type: Any, but: tuple[str, ...]) -> Conversion:
        """A loop over the fields takes a third longer, and a restart reads millions of facts."""
        known: dict[str, Any] = {"kind": kind, "message_type": message_type}
        written, read = [], []
        for name, of_type in ((one.name, one.type) for one in msgspec.structs.fields(kind) if one.name not in but):
            to, back = f"value.{name}", f"message.{name}"
            conversion = self._of_field(message_type.DESCRIPTOR, name, of_type)
            known[f"write_{name}"], known[f"read_{name}"] = conversion
            to = to if conversion.write is same else f"write_{name}({to})"
            back = back if conversion.read is same else f"read_{name}({back})"
            if NoneType in get_args(of_type):
                to = f"None if value.{name} is None else {to}"
                back = f"{back} if message.HasField('{name}') else None"
            written.append(f"{name}={to}")
            read.append(f"{name}={back}" if but else back)  # by position that takes less time
        write: Convert = eval(f"lambda value: message_type({', '.join(written)})", known)  # noqa: S307
        return Conversion(write, eval(f"lambda message: kind({', '.join(read)})", known))  # noqa: S307

    def _of_field(self, of_message: Descriptor, name: str, of_type: Any) -> Conversion:
        field, as_bytes = of_message.fields_by_name[name], of_message.file.name in FILES
        message = field.message_type
        if get_origin(of_type) in (Union, UnionType):
            of_type = next(one for one in get_args(of_type) if one is not NoneType)
        if field.full_name in self.special:
            return self.special[field.full_name]
        if message is None:
            return PLAIN_MANY if field.is_repeated else PLAIN
        if message.GetOptions().map_entry:
            return TAGS_AS_BYTES if as_bytes else MAP
        if message.full_name == RESOURCE:
            return RESOURCE_AS_BYTES if as_bytes else RESOURCE_AS_MESSAGE
        if field.is_repeated:
            return _each(self._of_message(message, get_args(of_type)[0]))
        return self._of_message(message, of_type)

    def _of_message(self, message: Any, of_type: type[Any]) -> Conversion:
        return self.special.get(message.full_name) or self.of(of_type, GetMessageClass(message))


def _later(known: Mapping[Any, Conversion], key: Any) -> Conversion:
    """The conversion that will be known by the key when it is used."""

    def write(value: Any) -> Any:
        return known[key].write(value)

    def read(message: Any) -> Any:
        return known[key].read(message)

    return Conversion(write, read)


RESOURCE = si.Resource.DESCRIPTOR.full_name


def same(value: Any) -> Any:
    return value


# Of single fields. `same`: protobuf stores the value as it is.
PLAIN = Conversion(same, same)
PLAIN_MANY = Conversion(same, tuple)
MAP = Conversion(same, dict)
TAGS_AS_BYTES = Conversion(same, lambda entries: TAGS[tuple(entries[:])])
RESOURCE_AS_MESSAGE = Conversion(write_resource, read_resource)
RESOURCE_AS_BYTES = Conversion(write_resource, RESOURCES.__getitem__)


def _each(one: Conversion) -> Conversion:
    return Conversion(lambda values: list(map(one.write, values)), lambda messages: tuple(map(one.read, messages)))
