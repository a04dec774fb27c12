"""How bad the network is just now. Every draw comes from the seed."""

from __future__ import annotations

from enum import Enum
from random import Random


class Fate(Enum):
    ARRIVES = 0
    LOST = 1  # before it had an effect
    UNANSWERED = 2  # after it


class Weather:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._slow_s = random.choice((0.002, 0.01, 0.1))
        self._late = random.choice((0.0, 0.01))  # some messages take very long
        self._lost = random.choice((0.0, 0.005, 0.02))
        self._unanswered = random.choice((0.0, 0.005, 0.02))
        self._repeated = random.choice((0.0, 0.05))
        self.calm = False

    def delay_s(self) -> float:
        if not self.calm and self._random.random() < self._late:
            return self._random.uniform(1.0, 12.0)
        return self._random.uniform(0.0002, 0.002 if self.calm else self._slow_s)

    def fate(self) -> Fate:
        if self.calm:
            return Fate.ARRIVES
        drawn = self._random.random()
        if drawn < self._lost:
            return Fate.LOST
        return Fate.UNANSWERED if drawn < self._lost + self._unanswered else Fate.ARRIVES

    def loses(self) -> bool:
        return not self.calm and self._random.random() < self._lost

    def repeats(self) -> bool:
        return not self.calm and self._random.random() < self._repeated
