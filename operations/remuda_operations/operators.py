"""Operators: their names and groups as parts of subjects. Pure.

A name such as alice@example.com holds characters that a token of a subject cannot hold. Each character other than
A-Z a-z 0-9 _ - becomes `=` and two hexadecimal digits: `alice=40example=2Ecom`. A list of groups is joined with `+`;
an empty list is `-`, with which no group begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_proto.names import GROUP, USER, NamePattern

# Names of operators and of their groups: as long as an address of a person may be.
OPERATOR_NAME_CHARACTERS = 254
# Groups of an operator. They are part of the subject of each request, and nats-server takes 4,096 bytes of it.
OPERATOR_GROUPS = 64
OPERATOR_GROUPS_CHARACTERS = 2_000

NO_GROUPS = "-"
_SEPARATOR = "+"
_ENCODED = re.compile(r"[^A-Za-z0-9_-]")
_DECODED = re.compile(r"=([0-9A-F]{2})")


@dataclass(frozen=True, slots=True)
class Operator:
    """Raises ValueError, on creation, for a name or a group that is not allowed, and for too many groups."""

    name: str
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("operator", self.name, USER)
        for group in self.groups:
            _check("group", group, GROUP)
        if len(self.groups) > OPERATOR_GROUPS:
            raise ValueError(f"groups of {self.name}: {len(self.groups)}, expected at most {OPERATOR_GROUPS}")
        if (size := len(self.groups_token)) > OPERATOR_GROUPS_CHARACTERS:
            expected = f"expected at most {OPERATOR_GROUPS_CHARACTERS:,}"
            raise ValueError(f"groups of {self.name}: {size:,} characters in a subject, {expected}")

    @property
    def token(self) -> str:
        """The name as a token of a subject and as a part of a file name."""
        return encode(self.name)

    @property
    def groups_token(self) -> str:
        """The groups as a token of a subject."""
        return _SEPARATOR.join(encode(group) for group in self.groups) or NO_GROUPS


def client_token(name: str) -> str:
    """The name of a client of Peloton's resource manager as a token of a subject. Raises ValueError."""
    _check("client", name, USER)
    return encode(name)


def operator_with(name: str, groups: Iterable[str]) -> Operator:
    """The operator, with each group once. Raises ValueError."""
    return Operator(name, tuple(dict.fromkeys(groups)))


def usable_groups(names: Iterable[str]) -> tuple[str, ...]:
    """The names that a group can have, once each, and as many as fit into a subject."""
    found: list[str] = []
    size = 0
    for name in dict.fromkeys(names):
        if not GROUP.matches(name) or len(name) > OPERATOR_NAME_CHARACTERS:
            continue
        size += len(encode(name)) + 1
        if len(found) < OPERATOR_GROUPS and size <= OPERATOR_GROUPS_CHARACTERS:
            found.append(name)
    return tuple(found)


def operator_in(text: str) -> Operator:
    """The operator that settings write as `OPERATOR` or `OPERATOR+GROUP+GROUP`. Raises ValueError."""
    name, *groups = text.split(_SEPARATOR)
    return operator_with(name, groups)


def certified_in(entry: str) -> tuple[str, Operator]:
    """The certificate's name and the operator in an entry `NAME=OPERATOR+GROUP` of a setting. Raises ValueError."""
    name, equals, operator = entry.partition("=")
    if not (name and equals):
        raise ValueError(f"expected NAME=OPERATOR or NAME=OPERATOR+GROUP, found {entry!r}")
    return name, operator_in(operator)


def certified(entries: Iterable[str]) -> dict[str, Operator]:
    """The operators in the entries of such a setting, by the names of certificates. Raises ValueError, also for a name
    with two operators."""
    found: dict[str, Operator] = {}
    for name, operator in map(certified_in, entries):
        if found.setdefault(name, operator) != operator:
            raise ValueError(f"{name} is {found[name].name} and {operator.name}, expected one operator")
    return found


def certificate_names(auth: Mapping[str, Iterable[bytes]]) -> frozenset[str]:
    """The common name and the alternative names in the client certificate of a gRPC connection; empty without one.
    `auth`: the connection's authentication context."""
    fields = ("x509_common_name", "x509_subject_alternative_name")
    return frozenset(one.decode(errors="replace") for field in fields for one in auth.get(field, ()))


def encode(name: str) -> str:
    return _ENCODED.sub(lambda found: f"={ord(found[0]):02X}", name)


def decode(token: str) -> str:
    """The inverse of `encode`. Raises ValueError for a token that `encode` does not make."""
    name = _DECODED.sub(lambda found: chr(int(found[1], 16)), token)
    if encode(name) != token:
        raise ValueError(f"{token[:200]!r}: expected A-Z a-z 0-9 _ - and =XX for other characters")
    return name


def request_of(subject: str) -> tuple[Operator, str, str]:
    """The operator, the rmID and the action in a subject of `subjects.administration`. Raises ValueError."""
    _, _, name, groups, rm_id, action = subject.split(".")
    return operator_of(name, groups), subjects.check_rm_id(rm_id), action


def operator_of(name: str, groups: str) -> Operator:
    """The operator of two tokens of a subject. Raises ValueError."""
    listed = () if groups == NO_GROUPS else tuple(decode(group) for group in groups.split(_SEPARATOR))
    return Operator(decode(name), listed)


def _check(kind: str, name: str, pattern: NamePattern) -> None:
    if len(name) > OPERATOR_NAME_CHARACTERS:
        size = f"{len(name):,} characters"
        raise ValueError(f"{kind} {name[:60]!r}...: {size}, expected at most {OPERATOR_NAME_CHARACTERS}")
    if not pattern.matches(name):
        raise ValueError(f"{kind} {name!r}: expected {pattern.expected}")
