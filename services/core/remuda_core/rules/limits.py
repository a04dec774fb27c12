"""The limits for users and groups that apply to an application (semantics section 5).

In each queue on the path to root, the user limit that names the user applies, else the one for `*`, which holds for
each user separately. For group limits an application belongs to one group: the first one that a limit names, from the
leaf queue upwards, and that the user is in. In each queue the limit that names this group applies, else the one for
`*`, which all groups without a limit of their own share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..settings import Limit, QueueSettings

USER, GROUP = "user", "group"
ANYONE = "*"


class Applying(NamedTuple):
    """A limit in the queue at `level` (0: the leaf queue), and the kind and name of the user or group it counts."""

    level: int
    kind: str
    name: str
    limit: Limit


def applying(levels: Sequence[Sequence[Limit]], user: str, groups: Sequence[str]) -> Iterator[Applying]:
    """Yield the limits that apply. `levels`: the limits of the leaf queue, of its parent, … of root."""
    if not any(levels):
        return
    for level, limits in enumerate(levels):
        for name in (user, ANYONE):
            limit = next((limit for limit in limits if name in limit.users), None)
            if limit is not None:
                yield Applying(level, USER, user, limit)
                break
    if not groups:
        return
    group = group_of(levels, groups)
    for level, limits in enumerate(levels):
        for name in (group, ANYONE):
            limit = next((limit for limit in limits if name in limit.groups), None)
            if limit is not None:
                yield Applying(level, GROUP, name, limit)
                break


def group_of(levels: Sequence[Sequence[Limit]], groups: Sequence[str]) -> str:
    """The group of the application for limits; `*` if no limit names one of `groups`."""
    named = (name for limits in levels for limit in limits for name in limit.groups)
    return next((name for name in named if name != ANYONE and name in groups), ANYONE)


def limits_others(was: QueueSettings, now: QueueSettings) -> bool:
    """Says whether the new settings of a queue count applications in other trackers or application limits."""
    return was.limits != now.limits or bool(was.max_applications) != bool(now.max_applications)
