"""Storms in queues with budgets: short periods, and asks with and without bounds."""

from __future__ import annotations

from msgspec.structs import replace

from remuda_core import commands
from remuda_core.commands import Command
from remuda_core.settings import Budget, ChildTemplate, Configuration, QueueSettings

from .storm import Later, Storm

HOUR_MS = 3_600_000
LENGTHS_MS = (60_000, 600_000, HOUR_MS, 5 * HOUR_MS)


class SpendingStorm(Storm):
    """Budgets are so small that they are reached again and again."""

    lengths_ms: tuple[int, ...] = LENGTHS_MS

    def configuration(self) -> Configuration:
        self.last = replace(super().configuration(), compatibility="none")
        return self.last

    def altered(self) -> Configuration:
        """Sometimes only budgets change."""
        if self.last is None or self.random.random() < 0.6:
            return super().altered()
        partitions = tuple(replace(each, root=self._otherwise(each.root)) for each in self.last.partitions)
        self.last = replace(self.last, checksum=self.new("sum-"), partitions=partitions)
        return self.last

    def _otherwise(self, queue: QueueSettings) -> QueueSettings:
        queues = tuple(map(self._otherwise, queue.queues))
        changes = {"budget": self.budget()} if self.random.random() < 0.4 else {}
        return replace(queue, queues=queues, **changes)

    def queue(self, name: str, depth: int) -> QueueSettings:
        return replace(super().queue(name, depth), budget=self.budget())

    def template(self) -> ChildTemplate | None:
        template = super().template()
        return replace(template, budget=self.budget()) if template is not None else None

    def properties(self) -> dict[str, str]:
        more = {"runtime.default": self.random.choice(("30s", "1h"))} if self.random.random() < 0.15 else {}
        return super().properties() | more

    def budget(self) -> Budget | None:
        random = self.random
        if random.random() < 0.4:
            return None
        amounts = {name: random.randint(0, 30) for name in ("vcore", "memory") if random.random() < 0.7}
        calendar = random.choice(("", "", "day", "week", "month"))
        return Budget(amounts, calendar, 0 if calendar else random.choice(self.lengths_ms)) if amounts else None

    def next(self) -> Command:
        # Without a tick verdicts of the RM stay whose time is over; this storm is not about them.
        if self.random.random() < 0.05 and "predicates" not in self.declared:
            return Later(self.world.now_ms + self.random.choice((100, 60_000, 1_200_000)), ticks=False)
        command = super().next()
        if not isinstance(command, commands.SubmitAsk):
            return command
        bounds_ms = (0, 0, 60_000, HOUR_MS, HOUR_MS, 3 * HOUR_MS, 20 * HOUR_MS)
        ask, tags = command.ask, dict(command.ask.tags)
        if self.random.random() < 0.2:
            tags["remuda/maxRuntime"] = self.random.choice(("10m", "2h"))
        return replace(command, ask=replace(ask, execution_timeout_ms=self.random.choice(bounds_ms), tags=tags))


class HourlyStorm(SpendingStorm):
    """Periods begin and end with an hour, and hours pass."""

    lengths_ms = (HOUR_MS, 2 * HOUR_MS)

    def tick(self) -> Command:
        return Later(self.world.now_ms + self.random.choice((1_000, 600_000, 1_500_000, 4_000_000)))
