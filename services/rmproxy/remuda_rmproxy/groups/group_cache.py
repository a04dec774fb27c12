"""Remembers the groups of users for some time, also that a user has none. Pure: time is an argument, in seconds.

An expired answer is kept as the last known one, for when the directory does not answer."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from remuda_rmproxy import limits


@dataclass(frozen=True, slots=True)
class CacheTimes:
    """The times for which a directory's answers count, in seconds.

    `known_s`: an answer with groups. `unknown_s`: an answer without groups. `last_known_s`: how long an answer is kept
    for the time when the directory does not answer.
    """

    known_s: float
    unknown_s: float
    last_known_s: float


class GroupCache:
    def __init__(self, times: CacheTimes, entries: int = limits.GROUPS_CACHED) -> None:
        self._times = times
        self._most = entries
        self._groups: OrderedDict[str, tuple[tuple[str, ...], float]] = OrderedDict()  # by user, with the time

    def put(self, user: str, groups: tuple[str, ...], now_s: float) -> None:
        self._groups.pop(user, None)
        self._groups[user] = (groups, now_s)
        while len(self._groups) > self._most:
            self._groups.popitem(last=False)  # the oldest answer

    def fresh(self, user: str, now_s: float) -> tuple[str, ...] | None:
        found = self._groups.get(user)
        if found is None:
            return None
        groups, at_s = found
        return groups if now_s - at_s < (self._times.known_s if groups else self._times.unknown_s) else None

    def last_known(self, user: str, now_s: float) -> tuple[str, ...] | None:
        """Returns the newest answer about the user, fresh or not; None: there is none."""
        found = self._groups.get(user)
        if found is None:
            return None
        groups, at_s = found
        return groups if now_s - at_s < max(self._times.last_known_s, self._times.known_s) else None
