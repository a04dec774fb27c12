"""The groups of a user as a directory knows them, checked against what the core takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remuda_proto import bounds
from remuda_proto.bounds import shown
from remuda_proto.names import GROUP
from remuda_rmproxy import limits


class DirectoryError(Exception):
    """The directory did not answer. The message says why."""


class UnusableAnswer(DirectoryError):
    """The directory has answered, but not with groups that count. Asking again does not help."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """The groups of a user as a directory states them. `primary`: the name of the primary group; None: the directory
    knows none. `others`: in the directory's order.
    """

    primary: str | None
    others: Sequence[str]


# Of a user. None: the directory does not know the user. Blocks; raises DirectoryError.
Lookup = Callable[[str], DirectoryEntry | None]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The groups of a user as they count for placement. `groups`: the primary one first. `problem`: why there is no
    answer; empty: there is one.
    """

    groups: tuple[str, ...] = ()
    problem: str = ""


def groups_of(user: str, entry: DirectoryEntry | None) -> tuple[str, ...]:
    """Returns the groups of a user: none where the directory does not know the user. Raises UnusableAnswer.

    Placement rules read the first group as the primary group, so a primary group that cannot be used is an error and is
    not left out. Other groups that no configuration can name are left out: no rule can depend on them.
    """
    if entry is None:
        return ()
    others = [group for group in entry.others if GROUP.matches(group) and group != entry.primary]
    if entry.primary is not None and not GROUP.matches(entry.primary):
        raise UnusableAnswer(f"primary group {shown(entry.primary)} of user {shown(user)}, expected {GROUP.expected}")
    groups = tuple(dict.fromkeys(others if entry.primary is None else [entry.primary, *others]))
    if problem := bounds.problem_of_texts("groups", groups, bounds.GROUPS):
        raise UnusableAnswer(f"user {shown(user)}: {problem}")
    return groups


def failed(user: str, reason: str) -> Resolution:
    text = f"the groups of user {shown(user)} could not be resolved: {reason}; submit the application again"
    return Resolution(problem=text[: limits.GROUPS_PROBLEM_CHARACTERS])
