"""Patterns of names in settings: a name, a glob with `*` and `?`, or an expression of RE2 between slashes. Pure.

Names contain no `*`, `?` or `/`, so that an entry has one meaning. A pattern matches the whole name."""

from __future__ import annotations

import re

from remuda_proto.patterns import compiled


def expression(entry: str) -> str:
    """The expression of RE2 for an entry."""
    if len(entry) > 1 and entry.startswith("/") and entry.endswith("/"):
        return rf"^(?:{entry[1:-1]})$"
    return "^" + "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in entry) + "$"


def check(entry: str) -> str:
    """The entry. Raises ValueError when it is no pattern."""
    if not entry:
        raise ValueError("expected a name or a pattern, found an empty one")
    compiled(expression(entry))
    return entry


def matches(entry: str, name: str) -> bool:
    """Whether a name matches the entry."""
    return compiled(expression(entry)).search(name) is not None
