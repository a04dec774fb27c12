"""Parses input from other processes: numbers, texts and JSON in headers, replies and buckets.

Malformed input raises Malformed. Its reason names the field, the value (shortened) and what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from remuda_bus import limits
from remuda_bus.bus import Headers, Unreadable

DIGITS = re.compile(r"-?[0-9]{1,19}")


class Malformed(Unreadable, ValueError):
    """Input from another process does not have the expected form."""


def shortened(text: str, characters: int = limits.SHOWN_CHARACTERS) -> str:
    """The text on one line, cut to `characters`. Control characters are replaced by spaces."""
    cut = text[:characters]
    printable = cut if cut.isprintable() else "".join(one if one.isprintable() else " " for one in cut)
    return printable if len(text) <= characters else f"{printable}… ({len(text)} characters)"


def number_in(
    headers: Headers, name: str, default: int | None = None, *, least: int = 0, most: int = limits.LARGEST_NUMBER
) -> int:
    """The decimal number in a header. `default`: the result where the header is missing (None: it is required)."""
    text = headers.get(name)
    if text is None:
        if default is None:
            raise Malformed(f"{name}: missing, expected a number from {least} to {most}")
        return default
    number = int(text) if DIGITS.fullmatch(text) else None
    if number is None or not least <= number <= most:
        raise Malformed(f"{name} {shortened(text)!r}: expected a number from {least} to {most}")
    return number


def json_object(payload: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object. `what`: the name of the payload in the error."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{what}: not JSON ({shortened(str(error))}): {_shown(payload)}") from None
    if not isinstance(found, dict):
        raise Malformed(f"{what}: a JSON object was expected, not {_shown(payload)}")
    return found


def field_of(found: Mapping[str, Any], name: str, kind: type, what: str) -> Any:
    """A required field of a JSON object, of type `kind`. A number must not be negative. `what`: the name of the object
    in the error."""
    value = found.get(name)
    if not isinstance(value, kind) or (isinstance(value, int) and (isinstance(value, bool) or value < 0)):
        raise Malformed(f"{what}: {name} {shortened(repr(value))}: expected a {kind.__name__}")
    return value


def _shown(payload: bytes) -> str:
    return repr(shortened(payload[: 2 * limits.SHOWN_CHARACTERS].decode(errors="replace")))
