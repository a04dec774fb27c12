"""Which limits for users and groups hold for an application (semantics section 5).

In each queue on its way up, of the limits for users the one that names its user counts, else the one for `*`, which is
meant for each user by himself. An application belongs to one group: from its leaf queue upwards, the first group that a
list of limits names and that its user is in. In each queue the limit that names this group counts, else the one for
`*`, which is meant for all groups not named together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..settings import Limit, QueueSettings

USER, GROUP = "user", "group"
ANYONE = "*"


class Applying(NamedTuple):
    """A limit in the queue at `level` (0: the leaf queue), and whose use of that queue it counts."""

    level: int
    kind: str
    name: str
    limit: Limit


def applying(levels: Sequence[Sequence[Limit]], user: str, groups: Sequence[str]) -> Iterator[Applying]:
    """`levels`: the limits of the leaf queue, of its parent, ... of root."""
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
    """The group that counts, `*` if no limit names any."""
    named = (name for limits in levels for limit in limits for name in limit.groups)
    return next((name for name in named if name != ANYONE and name in groups), ANYONE)


def limits_others(was: QueueSettings, now: QueueSettings) -> bool:
    """Applications count in other trackers or gates under the new settings of a queue."""
    return was.limits != now.limits or bool(was.max_applications) != bool(now.max_applications)
