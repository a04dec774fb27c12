"""Budgets: what a queue and the queues below have used in the present period, and what running work may still use
(semantics section 25).

    used        amount * time of all allocations since the period began, or since the budget was configured: `past` up
                to `at_ms`, and from then on what the queue uses times the time that has passed
    committed   amount * time that allocations may still use by their bounds until the period ends. Allocations are
                summed by their end, so an end that has passed counts no more, without a fact
    held        what is kept for asks for which others are preempted

A budget belongs to the path of its queue: it outlives the queue and the registrations of the RM, until its period is
over. A period ends with the first Tick after it, so that what waits for the next one is woken by a fact. Use after the
end counts in the next period all the same (`later`).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

from ..limits import IDLE_BUDGETS_KEPT, LEFTOVERS
from ..rules.budget import Cost, Period, amounts_of, period_at
from ..rules.resource import Resource, Sums, add, sums
from ..settings import Budget as BudgetSettings


class BudgetKey(NamedTuple):
    """The queue that a budget belongs to."""

    partition: str
    queue: str


class Clock(Protocol):
    """The time of the command that is decided, or of the commit that is applied."""

    now_ms: int


class Budget:
    """The budget of one queue: what may be used, and what is. Amounts are base units * ms."""

    __slots__ = (
        "_ends", "_heap", "_planned_until_ms", "amounts", "at_ms", "bounded", "clock", "from_ms", "held", "key",
        "later", "later_ms", "past", "settings", "until_ms", "used", "weighted",
    )  # fmt: skip

    def __init__(self, key: BudgetKey, settings: BudgetSettings, clock: Clock) -> None:
        self.key = key
        self.clock = clock
        self.used: Sums = sums()  # of the queue, while there is one
        self.settings = settings
        self.amounts = amounts_of(settings)
        # Since when use counts, and when the period ends.
        self.from_ms = clock.now_ms
        self.until_ms = period_at(settings, clock.now_ms).until_ms
        self.at_ms = clock.now_ms
        self.past: dict[str, int] = {}
        # The use after the period, in the period that begins at `later_ms`.
        self.later: dict[str, int] = {}
        self.later_ms = 0
        self.held: dict[str, int] = {}
        # The amounts of allocations by the time at which they end by their bound, a heap of these times, and sums: the
        # amounts, and the amounts times their end or that of the period.
        self._ends: dict[int, dict[str, int]] = {}
        self._heap: list[int] = []
        self._planned_until_ms = self.until_ms
        self.bounded: dict[str, int] = {}
        self.weighted: dict[str, int] = {}

    def __str__(self) -> str:
        return f"the budget of queue {self.key.queue}"

    @property
    def path(self) -> str:
        return self.key.queue

    # Use

    def settle(self, now_ms: int) -> None:
        """Bring the past up to date. It must be called before `used` changes."""
        if now_ms == self.at_ms:
            return
        _gain(self.past, self.used, min(now_ms, self.until_ms) - self.at_ms)
        if now_ms > self.until_ms:
            begins_ms = period_at(self.settings, now_ms).from_ms
            if begins_ms != self.later_ms:  # whole periods have passed
                self.later, self.later_ms = {}, begins_ms
            _gain(self.later, self.used, now_ms - max(self.at_ms, begins_ms))
        self.at_ms = now_ms

    def period_ends(self, period: Period) -> None:
        """Begin the period, in which the present time lies."""
        self.settle(self.clock.now_ms)
        self.past = self.later if self.later_ms == period.from_ms else {}
        self.later, self.later_ms = {}, 0
        self.from_ms, self.until_ms = period

    def change_settings(self, settings: BudgetSettings) -> None:
        """Bound use by other amounts, or in other periods. What was used in the present period is kept."""
        now_ms = self.clock.now_ms
        self.settle(now_ms)
        if now_ms >= self.until_ms:
            self.period_ends(period_at(self.settings, now_ms))
        if settings != self.settings:
            self.settings, self.amounts = settings, amounts_of(settings)
            self.until_ms = period_at(settings, now_ms).until_ms

    def used_of(self, name: str) -> int:
        """The use of the resource until now; of a period that is over, until its end."""
        gained_ms = min(self.clock.now_ms, self.until_ms) - self.at_ms
        return self.past.get(name, 0) + (self.used.get(name, 0) * gained_ms if gained_ms > 0 else 0)

    # Commitments

    def commit(self, end_ms: int, resource: Resource, times: int = 1) -> None:
        """Count an allocation that ends by its bound at this time, or no longer count it (-1). One whose time is over
        does not count any more; it is used, as long as it lasts."""
        ends = self._ends.get(end_ms)
        if ends is None:
            if times < 0 or end_ms <= self.clock.now_ms:
                return
            ends = self._ends[end_ms] = {}
            heappush(self._heap, end_ms)
        add(ends, resource, times)
        self._weigh(end_ms, resource, times)
        if not ends:
            del self._ends[end_ms]
            if len(self._heap) > 2 * len(self._ends) + LEFTOVERS:
                self._heap = list(self._ends)
                heapify(self._heap)

    def committed_of(self, name: str) -> int:
        """The most that running work may still use of the resource by its bounds, until the period ends."""
        now_ms = min(self.clock.now_ms, self.until_ms)
        self._pass_to(now_ms)
        return self.weighted.get(name, 0) - self.bounded.get(name, 0) * now_ms

    def forget_commitments(self) -> None:
        """The RM reports everything again."""
        self._ends, self._heap, self.bounded, self.weighted, self.held = {}, [], {}, {}, {}

    def _pass_to(self, now_ms: int) -> None:
        if self._planned_until_ms != self.until_ms:  # in another period other ends are cut
            self._planned_until_ms = self.until_ms
            self.bounded, self.weighted = {}, {}
            for end_ms, amounts in self._ends.items():
                self._weigh(end_ms, amounts, 1)
        heap = self._heap
        while heap and heap[0] <= now_ms:
            end_ms = heappop(heap)
            if end_ms in self._ends:
                self._weigh(end_ms, self._ends.pop(end_ms), -1)

    def _weigh(self, end_ms: int, amounts: Resource, times: int) -> None:
        add(self.bounded, amounts, times)
        add(self.weighted, amounts, times * min(end_ms, self._planned_until_ms))

    # Room

    def left_of(self, name: str, held: Cost) -> int:
        """The rest of a resource that the budget bounds, beside `held`."""
        return self.amounts[name] - self.used_of(name) - self.committed_of(name) - held.get(name, 0)

    def has_room(self, cost: Cost, held: Cost) -> bool:
        """Whether the budget leaves what an ask would use. `held`: what is kept for others."""
        return all(need <= self.left_of(name, held) for name, need in cost.items() if name in self.amounts)


def _gain(past: dict[str, int], used: Resource, lasted_ms: int) -> None:
    if lasted_ms > 0:
        add(past, used, lasted_ms)


class Budgets:
    """The budgets of one RM, by the paths of their queues."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[BudgetKey, Budget] = {}
        # Those without a queue, the one first whose queue went first.
        self._idle: dict[BudgetKey, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def find(self, key: BudgetKey) -> Budget | None:
        return self._of.get(key)

    def items(self) -> Iterator[tuple[BudgetKey, Budget]]:
        """All budgets: those of queues by key, then the others in the order in which they are forgotten."""
        yield from ((key, self._of[key]) for key in sorted(self._of.keys() - self._idle.keys()))
        yield from ((key, self._of[key]) for key in self._idle)

    def is_idle(self, key: BudgetKey) -> bool:
        return key in self._idle

    def join(self, key: BudgetKey, settings: BudgetSettings, used: Sums) -> Budget:
        """The budget of a queue that has these settings now, and whose use is `used`. It continues if there is one."""
        budget = self._of.get(key)
        if budget is None:
            budget = self._of[key] = Budget(key, settings, self._clock)
        else:
            budget.change_settings(settings)
        budget.used = used
        self._idle.pop(key, None)
        return budget

    def add_idle(self, key: BudgetKey, settings: BudgetSettings) -> Budget:
        """Add a budget without a queue, which a snapshot holds."""
        budget = self._of[key] = Budget(key, settings, self._clock)
        self._idle[key] = None
        return budget

    def leave(self, budget: Budget) -> None:
        """Follow the end of the queue. What was used is kept until the period is over."""
        now_ms = self._clock.now_ms
        budget.settle(now_ms)
        budget.used = sums()
        budget.forget_commitments()
        self._idle[budget.key] = None
        for _ in range(2):
            oldest = next(iter(self._idle))
            if self._of[oldest].until_ms > now_ms and len(self._idle) <= IDLE_BUDGETS_KEPT:
                break
            self.forget(oldest)
            if not self._idle:
                break

    def leave_all(self) -> None:
        """Follow the end of all queues: the RM reports everything again."""
        for budget in [budget for key, budget in self._of.items() if key not in self._idle]:
            self.leave(budget)

    def forget(self, key: BudgetKey) -> None:
        self._of.pop(key, None)
        self._idle.pop(key, None)
