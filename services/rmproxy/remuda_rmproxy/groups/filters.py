"""Filters of LDAP searches (RFC 4515) with places for values, such as `(uid={user})`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter

from remuda_proto.bounds import shown

# RFC 4515, section 3. NUL ends texts in some servers; bytes beyond ASCII are UTF-8 and need no escape.
_ESCAPED = str.maketrans({character: f"\\{ord(character):02x}" for character in "\\*()\0"})


def escaped(value: str) -> str:
    """A value that never changes the structure of a filter. Characters that UTF-8 does not have become `?`."""
    return value.encode(errors="replace").decode().translate(_ESCAPED)


def filled(template: str, values: Mapping[str, str]) -> str:
    return template.format_map({name: escaped(value) for name, value in values.items()})


def check(key: str, template: str, names: Sequence[str]) -> None:
    """Raises ValueError unless it is a filter in parentheses with one of these names, and no other."""
    expected = (
        f"{key}={shown(template)}: expected a filter in parentheses with {' or '.join(f'{{{one}}}' for one in names)}"
    )
    try:
        found = [field[1:] for field in Formatter().parse(template) if field[1] is not None]
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from None
    if not found or any(name not in names or spec or conversion for name, spec, conversion in found):
        raise ValueError(expected)
    if not (template.startswith("(") and template.endswith(")")) or template.count("(") != template.count(")"):
        raise ValueError(expected)
