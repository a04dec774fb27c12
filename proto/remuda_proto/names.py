"""The patterns of names: one table for the configuration's verifier, the core, rmproxy, the bus and the command line.

A pattern limits characters. The bounds of lengths that a pattern does not contain are in `bounds`: names of users,
groups and resources.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .constants import RECOVERY_QUEUE


@dataclass(frozen=True, slots=True)
class NamePattern:
    """`matches` is truthy for an allowed name. `expected`: the pattern in words, as refusals quote it."""

    matches: Callable[[str], object]
    expected: str


def _matches_partition(name: str) -> bool:
    # The scheduler's own name of a partition is `[<rmID>]<name>`, so a plain name must not begin with `[`.
    return 1 <= len(name) <= 64 and name.isprintable() and name == name.strip() and not name.startswith("[")


# No configuration and no rule may name this queue.
RECOVERY_NAME: Final = RECOVERY_QUEUE.removeprefix("root.")
QUEUE: Final = NamePattern(
    re.compile(rf"(?!(?i:{RECOVERY_NAME})$)[a-zA-Z0-9_:#/@-]{{1,64}}").fullmatch,
    f"1 to 64 of A-Z a-z 0-9 _ - : # / @, other than {RECOVERY_NAME}",
)
USER: Final = NamePattern(
    re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?").fullmatch,
    "a letter or _, then letters, digits and : # / _ . @ -, optionally a $ at the end",
)
GROUP: Final = NamePattern(
    re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*").fullmatch, "a letter or _, then letters, digits and : _ . -"
)
BY_KIND: Final = {"user": USER, "group": GROUP}
PARTITION: Final = NamePattern(
    _matches_partition, "1 to 64 printable characters, no blank at either end and no [ at the beginning"
)
ACTION_ID: Final = NamePattern(re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch, "1 to 64 of A-Z a-z 0-9 _ -")
CLUSTER: Final = NamePattern(ACTION_ID.matches, ACTION_ID.expected)
RM_ID: Final = NamePattern(re.compile(r"[A-Za-z0-9_:-]{1,64}").fullmatch, "1 to 64 of A-Z a-z 0-9 _ : -")
