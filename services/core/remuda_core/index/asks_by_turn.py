"""A line of asks: by priority from high to low, then by age (semantics section 9)."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator

from ..limits import LEFTOVERS
from ..state import PendingAsk


class AsksByTurn:
    """A line of asks, of which those with free repeats count. Mostly asks come in the order of their age and have one
    priority, so all operations are O(1) then. A withdrawn ask has no free repeats; it stays in the line until it comes
    to the front, or until withdrawn asks outnumber the others. So the first ask of `best` has free repeats, and `best`
    is empty only if the line is."""

    __slots__ = ("best", "lower", "priority", "tidy_at", "withdrawn")

    def __init__(self) -> None:
        self.best: deque[PendingAsk] = deque()  # the asks of the highest priority
        self.priority = 0
        self.lower: dict[int, deque[PendingAsk]] | None = None
        self.withdrawn = 0
        self.tidy_at = LEFTOVERS  # the number of withdrawn asks at which to check whether they are too many

    def add_ask(self, ask: PendingAsk) -> None:
        asks = self.best if ask.ask.priority == self.priority else self._of_priority(ask.ask.priority)
        if asks and asks[-1].seq > ask.seq:
            insort(asks, ask, key=lambda pending: pending.seq)
        else:
            asks.append(ask)

    def _of_priority(self, priority: int) -> deque[PendingAsk]:
        """The asks of a priority that is not the highest so far."""
        lower = self.lower = self.lower or {}
        if priority < self.priority and (self.best or lower):
            return lower.setdefault(priority, deque())
        if self.best:
            lower[self.priority] = self.best
            self.best = deque()
        self.priority = priority
        return self.best

    def remove_ask(self, ask: PendingAsk) -> None:
        """Remove an ask that is in the line. O(1) for the first one, else O(asks)."""
        best = self.best
        if best[0] is ask:
            best.popleft()
            if not best or not best[0].free:
                self._advance()
        elif ask.ask.priority == self.priority or self.lower is None:
            best.remove(ask)
        else:
            asks = self.lower[ask.ask.priority]
            asks.remove(ask)
            if not asks:
                del self.lower[ask.ask.priority]

    def count_withdrawn(self) -> None:
        """Count an ask of the line that was withdrawn: its `free` is 0 now."""
        self.withdrawn += 1
        if not self.best[0].free:
            self._advance()
        if self.withdrawn >= self.tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        lower = self.lower or {}
        there = len(self.best) + sum(map(len, lower.values()))
        if 2 * self.withdrawn > there:
            self.best = deque(ask for ask in self.best if ask.free)
            kept = {priority: deque(ask for ask in asks if ask.free) for priority, asks in lower.items()}
            self.lower = {priority: asks for priority, asks in kept.items() if asks} or None
            there -= self.withdrawn
            self.withdrawn = 0
        self.tidy_at = max(LEFTOVERS, there // 2 + 1)

    def remove_keys(self, moving: set[str]) -> None:
        """Remove the asks with these allocation keys, and those that were withdrawn. O(asks)."""
        waiting = [ask for _, asks in self.by_priority() for ask in asks if ask.free]
        self.best = deque()
        self.lower = None
        self.withdrawn = 0
        for ask in waiting:
            if ask.ask.allocation_key not in moving:
                self.add_ask(ask)

    def by_priority(self) -> Iterator[tuple[int, deque[PendingAsk]]]:
        """(priority, its asks by age), from the highest priority to the lowest. Includes withdrawn asks."""
        yield self.priority, self.best
        if self.lower:
            yield from sorted(self.lower.items(), reverse=True)

    def count(self) -> int:
        """The number of asks with free repeats. O(asks)."""
        return sum(1 for _, asks in self.by_priority() for ask in asks if ask.free)

    def oldest_ask(self) -> PendingAsk | None:
        first = (next((ask for ask in asks if ask.free), None) for _, asks in self.by_priority())
        return min((ask for ask in first if ask is not None), key=lambda ask: ask.at_ms, default=None)

    def first_ask(self) -> PendingAsk | None:
        return self.best[0] if self.best else None

    def _advance(self) -> None:
        """Drop asks without free repeats from the front."""
        asks = self.best
        while True:
            while asks:
                if asks[0].free:
                    return
                asks.popleft()
                self.withdrawn -= 1
            if not self.lower:
                return
            self.priority = max(self.lower)
            self.best = asks = self.lower.pop(self.priority)
