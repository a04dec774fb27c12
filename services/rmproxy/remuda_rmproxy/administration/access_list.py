"""The scheduler's access list (001, Access Control Lists): which operators administer nodes and RMs. Pure.

ACL ::= "*" | userlist [ " " grouplist ]        comma-separated lists; an empty ACL allows no operator
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from remuda_bus.operators import Operator
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
        if text.strip(" ") == EVERYONE:
            return cls(everyone=True)
        fields = text.rstrip(" ").split(" ")
        if len(fields) > 2:
            raise ValueError(f"{shown(text)} has more than one space: expected user,user group,group")
        users, groups = (*fields, "")[:2]
        return cls(frozenset(_names("user", users, text)), frozenset(_names("group", groups, text)))

    def allows(self, operator: Operator) -> bool:
        return self.everyone or operator.name in self.users or not self.groups.isdisjoint(operator.groups)


def _names(kind: str, field: str, text: str) -> Iterator[str]:
    for name in field.split(",") if field else ():
        if not name:
            raise ValueError(f"{shown(text)} has an empty {kind} name: expected user,user group,group")
        if name == EVERYONE:
            raise ValueError(f"{shown(text)} has a '*' among {kind} names: it has to stand alone")
        if not BY_KIND[kind].matches(name):
            raise ValueError(f"bad {kind} name {shown(name)}: expected {BY_KIND[kind].expected}")
        yield name
