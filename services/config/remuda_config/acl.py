"""Access control lists: `*`, or users and groups separated by one space. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_config import names

EVERYONE = "*"


def canonical(text: str) -> str:
    """`*`, empty (nobody), or `users groups` of a list without problems."""
    fields = _fields(text)
    return EVERYONE if [EVERYONE] in fields else text.rstrip(" ")


def check(text: str) -> Iterator[str]:
    """Everything wrong with the list (specification of the configuration, "Access Control Lists")."""
    fields = _fields(text)
    if len(fields) > 2:
        yield f"{text!r} has more than one space: expected user,user group,group"
        return
    for kind, entries in zip(("user", "group"), fields, strict=False):
        if entries == [EVERYONE]:
            continue
        for entry in entries:
            if problem := _check_entry(kind, entry, text):
                yield problem


def _check_entry(kind: str, entry: str, text: str) -> str | None:
    if not entry:
        return f"{text!r} has an empty {kind} name: expected user,user group,group"
    if entry == EVERYONE:
        return f"{text!r} has a '*' among {kind} names: it has to stand alone"
    if not names.BY_KIND[kind].fullmatch(entry):
        return f"bad {kind} name {entry!r}: expected {names.SHAPE[kind]}"
    return None


def _fields(text: str) -> list[list[str]]:
    """Users, groups and what is too much; a side with nothing in it is []."""
    return [field.split(",") if field else [] for field in text.split(" ")]
