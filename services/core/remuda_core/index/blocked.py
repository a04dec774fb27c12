"""Record which limit blocks what, so that a limit that gains room or a slot finds all that it blocked."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

from ..state import Application, Queue, Tracker

Limit: TypeAlias = Queue | Tracker | Application

W = TypeVar("W", bound=Hashable)


class BlockedBy(Generic[W]):
    """Each item is blocked by at most one limit. All methods are O(1), except for copies that they return."""

    __slots__ = ("_by_limit", "_limits")

    def __init__(self) -> None:
        self._limits: dict[W, Limit] = {}
        self._by_limit: dict[Limit, dict[W, None]] = {}

    def __contains__(self, who: W) -> bool:
        return who in self._limits

    def block(self, who: W, limit: Limit) -> None:
        self.unblock(who)
        self._limits[who] = limit
        self._by_limit.setdefault(limit, {})[who] = None

    def unblock(self, who: W) -> None:
        """Does nothing if the item is not blocked."""
        limit = self._limits.pop(who, None)
        if limit is not None:
            others = self._by_limit[limit]
            del others[who]
            if not others:
                del self._by_limit[limit]

    def blocked_at(self, limit: Limit) -> list[W]:
        """The items that the limit blocks, in the order in which they were blocked."""
        return list(self._by_limit.get(limit, ()))

    def limits(self) -> dict[W, Limit]:
        return self._limits
