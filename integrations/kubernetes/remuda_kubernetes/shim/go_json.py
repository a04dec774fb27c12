"""Reads JSON as programs in Go do, which write and read most annotations: keys in any case, null for what is absent.

Go writes the names of fields as the type has them unless it is told otherwise, and null for an empty list or map.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def names_of(kind: type[msgspec.Struct], *more: str) -> Mapping[str, str]:
    """The names of its fields, by the same in lower case. `more`: those of objects in the fields."""
    own = (field.encode_name for field in msgspec.structs.fields(kind))
    return {name.lower(): name for name in (*own, *more)}


def decode(text: str, kind: type[T], names: Mapping[str, str], maps: Collection[str] = ()) -> T:
    """Decode a text into a `kind`, which must have defaults for all fields, as `null` gives them. `names`: of
    `names_of`. `maps`: fields in which keys are no names of fields, and stay as they are. Raises msgspec.MsgspecError
    or RecursionError."""
    found = msgspec.json.decode(text)
    return kind() if found is None else msgspec.convert(_named(found, names, maps), kind)


def _named(value: Any, names: Mapping[str, str], maps: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_named(item, names, maps) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        if item is not None:
            name = names.get(key.lower(), key)
            found[name] = _named(item, {} if name in maps else names, maps)
    return found
