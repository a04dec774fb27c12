"""JSON as the reference writes it: compact, with a line break at the end, without empty values, HTML escaped."""

from __future__ import annotations

import json
from typing import Any, Final

Json = dict[str, Any]
_ESCAPED: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def encode(value: object, indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return (text.translate(_ESCAPED) + "\n").encode(errors="surrogatepass")


def without_empty(fields: Json, *kept: str) -> Json:
    """The fields that have a value other than 0, false and empty, and those in `kept`."""
    return {name: value for name, value in fields.items() if value or name in kept}


def nanoseconds(ms: int) -> int:
    return ms * 1_000_000
