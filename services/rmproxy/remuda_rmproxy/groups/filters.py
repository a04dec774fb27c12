"""Filters of LDAP searches (RFC 4515) with places for values, such as `(uid={user})`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter

from remuda_proto.bounds import shown

# All other bytes are written in hexadecimal digits (RFC 4515, section 3). That is more than the RFC asks for: ldap3
# removes blanks around a value, so that ` ann` would be read as `ann`.
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@")


def escaped(value: str) -> str:
    """Returns the value in a form that never changes the structure of a filter. Characters that UTF-8 does not have
    become `?`.
    """
    return "".join(chr(byte) if byte in _PLAIN else f"\\{byte:02x}" for byte in value.encode(errors="replace"))


def filled(template: str, values: Mapping[str, str]) -> str:
    return template.format_map({name: escaped(value) for name, value in values.items()})


def check(key: str, template: str, names: Sequence[str]) -> None:
    """Raises ValueError unless the template is a filter in parentheses that has one of these names, and no other."""
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
