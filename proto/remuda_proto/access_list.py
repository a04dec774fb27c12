"""Access control lists (001, Access Control Lists): one syntax for queues and for the scheduler's administrators. Pure.

ACL ::= "*" | userlist [ " " grouplist ]        comma-separated lists; an empty or absent ACL allows no user
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from remuda_proto.bounds import shown
from remuda_proto.names import BY_KIND

EVERYONE = "*"


@dataclass(frozen=True, slots=True)
class AccessList:
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everyone: bool = False

    @classmethod
    def parse(cls, text: str) -> AccessList:
        """Raises ValueError that names the value and what was expected."""
        for problem in problems(text):
            raise ValueError(problem)
        return cls.read(text)

    @classmethod
    def read(cls, text: str) -> AccessList:
        """Reads a list that has been checked; `parse` checks it."""
        fields = _fields(text)
        if [EVERYONE] in fields:
            return cls(everyone=True)
        users, groups = (*fields, [])[:2]
        return cls(frozenset(users), frozenset(groups))

    def allows(self, user: str, groups: Iterable[str]) -> bool:
        return self.everyone or user in self.users or not self.groups.isdisjoint(groups)


def canonical(text: str) -> str:
    """The list as it is stored: `*`, empty (no access), or `users groups`. The list has no problems."""
    return EVERYONE if AccessList.read(text).everyone else text.rstrip(" ")


def problems(text: str) -> Iterator[str]:
    """The problems of the list, each with the value and what was expected."""
    fields = _fields(text)
    if len(fields) > 2:
        yield f"{shown(text)} has more than one space: expected user,user group,group"
        return
    for kind, entries in zip(("user", "group"), fields, strict=False):
        if entries == [EVERYONE]:
            continue
        for entry in entries:
            if problem := _problem_of_entry(kind, entry, text):
                yield problem


def _problem_of_entry(kind: str, entry: str, text: str) -> str | None:
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
