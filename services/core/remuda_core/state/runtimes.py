"""The last run times of users' allocations, of which expectations are made (semantics section 22)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..limits import RUNS_KEPT, RUNS_KEPT_OF_ALL, RUNTIMES_KEPT

# No user has this name.
EVERYONE: Final = ("", "")


def _most(key: tuple[str, str]) -> int:
    return RUNS_KEPT_OF_ALL if key == EVERYONE else RUNS_KEPT


class Run(NamedTuple):
    """The run time of an allocation, and its bound (0: none), in ms."""

    ran_ms: int
    bound_ms: int


class Runtimes:
    """The last RUNS_KEPT runs by user and name, and by user alone (name ""); the last RUNS_KEPT_OF_ALL of all users
    (user ""). At most RUNTIMES_KEPT pairs are known; the one that was used least lately goes first."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], deque[Run]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def add_run(self, user: str, name: str, run: Run) -> None:
        for key in dict.fromkeys(((user, name), (user, ""), EVERYONE)):
            runs = self._of.pop(key, None) or deque(maxlen=_most(key))
            runs.append(run)
            self._of[key] = runs
        while len(self._of) > RUNTIMES_KEPT:
            del self._of[next(iter(self._of))]

    def put(self, user: str, name: str, runs: Iterator[Run]) -> None:
        """Take the runs of a snapshot, which names pairs in their order."""
        self._of[user, name] = deque(runs, maxlen=_most((user, name)))

    def of(self, user: str, name: str = "") -> tuple[Run, ...]:
        """The oldest first."""
        return tuple(self._of.get((user, name), ()))

    def ran_ms(self, user: str, name: str = "") -> list[int]:
        return [run.ran_ms for run in self._of.get((user, name), ())]

    def all(self) -> Iterator[tuple[str, str, tuple[Run, ...]]]:
        """(user, name, runs), the pair first that was used least lately."""
        for (user, name), runs in self._of.items():
            yield user, name, tuple(runs)
