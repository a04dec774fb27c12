"""Access control lists: `*`, or users and groups separated by one space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remuda_proto.bounds import shown
from remuda_proto.names import BY_KIND

EVERYONE = "*"


def canonical(text: str) -> str:
    """The list as the core reads it: `*`, empty (no access), or `users groups`. The list has no problems."""
    fields = _fields(text)
    return EVERYONE if [EVERYONE] in fields else text.rstrip(" ")


def allows(text: str, user: str, groups: Iterable[str]) -> bool:
    """Whether the list, which has no problems, names the user or one of the groups (001)."""
    fields = _fields(text)
    if [EVERYONE] in fields:
        return True
    users, groups_in = (*fields, [], [])[:2]
    return user in users or any(group in groups_in for group in groups)


def check(text: str) -> Iterator[str]:
    """The problems of the list (001, Access Control Lists)."""
    fields = _fields(text)
    if len(fields) > 2:
        yield f"{shown(text)} has more than one space: expected user,user group,group"
        return
    for kind, entries in zip(("user", "group"), fields, strict=False):
        if entries == [EVERYONE]:
            continue
        for entry in entries:
            if problem := _check_entry(kind, entry, text):
                yield problem


def _check_entry(kind: str, entry: str, text: str) -> str | None:
    if not entry:
        return f"{shown(text)} has an empty {kind} name: expected user,user group,group"
    if entry == EVERYONE:
        return f"{shown(text)} has a '*' among {kind} names: it has to stand alone"
    if not BY_KIND[kind].matches(entry):
        return f"bad {kind} name {shown(entry)}: expected {BY_KIND[kind].expected}"
    return None


def _fields(text: str) -> list[list[str]]:
    """Users, groups, and fields that are too many. An empty field is []."""
    return [field.split(",") if field else [] for field in text.split(" ")]
