"""Storms of all kinds with a calendar: windows come, overlap, pass, and change while they are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from msgspec.structs import replace

from remuda_core.settings import Configuration, Offset, PartitionSettings, QueueInWindow, QueueSettings, Window

from .leaving_storm import MINUTE_MS, LeavingStorm

HOUR_MS = 60 * MINUTE_MS


def drawn(random: Random, queues: Mapping[str, QueueSettings], now_ms: int, most: int) -> tuple[Window, ...]:
    """Windows around the time; `queues`: by path, those below root."""
    return tuple(one(random, queues, now_ms, f"w{number}") for number in range(random.randint(min(most, 1), most)))


def one(random: Random, queues: Mapping[str, QueueSettings], now_ms: int, name: str) -> Window:
    """A window of any of the three kinds. One that comes again has stopped to do so after six hours."""
    minutes = random.choice((-20, -1, 0, 1, 3, 10, 30, 65, 100))
    begins_ms = max(1, now_ms + minutes * MINUTE_MS + random.choice((0, 1, 5_000, 30_000)))
    window = Window(name, begins_ms, duration_ms=random.choice((1, 2, 10, 45, 120)) * MINUTE_MS)
    if random.random() < 0.3:
        ahead_ms = random.choice((-5, 0, 2)) * HOUR_MS
        clock_ms = (begins_ms + ahead_ms) // MINUTE_MS * MINUTE_MS
        window = replace(
            window, start_ms=0, days=tuple(range(7)), time_ms=clock_ms % (24 * HOUR_MS),
            offsets=(Offset(0, ahead_ms),), until_ms=now_ms + 6 * HOUR_MS,
        )  # fmt: skip
    kind = random.random()
    if kind < 0.25 and queues:
        path = random.choice(sorted(queues))
        now = queues[path]
        changed = replace(
            now, max_applications=now.max_applications + 1, max={**now.max, "vcore": random.randint(1, 9)}
        )
        return replace(window, queues=(QueueInWindow(path, changed),))
    nodes = {"rack": random.choice("xy*")} if random.random() < 0.5 else {}
    ids = tuple(sorted(random.sample(("n1", "n2", "n3", "n4"), random.randint(1, 2))))
    window = replace(window, nodes=nodes, ids=("*",) if random.random() < 0.2 else () if nodes else ids)
    if kind < 0.6 and queues:
        lead_ms = random.choice((0, 1, 10, 60)) * MINUTE_MS
        return replace(window, queue=random.choice(sorted(queues)), lead_ms=lead_ms)
    return replace(window, unbounded=random.random() < 0.3, release=random.random() < 0.3)


class WindowsStorm(LeavingStorm):
    def configuration(self) -> Configuration:
        """Without the rules of an earlier version, which have no calendar."""
        self.last = replace(super().configuration(), compatibility="none")
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        found = super().settings(name)
        below = dict(_below(found.root, "root"))
        if self.random.random() < 0.2:
            return found
        return replace(found, calendar=drawn(self.random, below, self.world.now_ms, 4))


def _below(queue: QueueSettings, path: str) -> Iterator[tuple[str, QueueSettings]]:
    for child in queue.queues:
        yield f"{path}.{child.name}", replace(child, queues=())
        yield from _below(child, f"{path}.{child.name}")
