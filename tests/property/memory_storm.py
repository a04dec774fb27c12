"""Storms in queues that remember: half-lives, weights, guarantees first, users."""

from __future__ import annotations

from msgspec.structs import replace

from remuda_core.settings import Configuration

from .storm import Storm


class MemoryStorm(Storm):
    """Half-lives are short, so that a storm has many of them, and crosses landmarks."""

    patience = ("0", "1ms", "10s", "48h")

    def configuration(self) -> Configuration:
        self.last = replace(super().configuration(), compatibility="none")
        return self.last

    def properties(self) -> dict[str, str]:
        random = self.random
        found = super().properties()
        if random.random() < 0.6:
            found["application.sort.policy"] = random.choice(("fair", "fair-users"))
        choices = {
            "fair.half-life": ("1m", "1m", "2m", "1h", "168h"),
            "fair.ahead": ("0", "1s", "10m"),
            "fair.weight": ("0.001", "0.5", "2", "3", "1000"),
            "fair.guaranteed": ("first", "plain"),
            "fair.user-weights": ("alice=3,bob=0.5", "alice=0.001", "@dev=2,bob=5", "@dev=2,@ops=4"),
        }
        found |= {key: random.choice(values) for key, values in choices.items() if random.random() < 0.4}
        found["fair.patience"] = random.choice(self.patience)
        return found
