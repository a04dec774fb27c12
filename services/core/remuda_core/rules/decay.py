"""The clock of decayed use (semantics section 23): how much all moments up to a time weigh together.

A moment one half-life ago weighs half as much as the present one. `Decay.at` is the integral of these weights: 2^(t /
half-life), in STEPS steps for each half-life, as an exact integer. Use over a span is then amount * (at(end) -
at(begin)), and the mean of all use is the sum of such products divided by `at(now)`. Integers make the sum independent
of how often, in which order and on which machine it is computed.

The integers grow by one bit for each half-life. Time is therefore divided into epochs of EPOCH half-lives, each with a
landmark at its begin from which `at` is measured. A value of an earlier epoch is shifted right by EPOCH bits for each
epoch since. What the shift drops is exact in this sense: from its landmark on, `at` of the earlier epoch is a multiple
of 2^EPOCH, so the moment of the shift makes no difference.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import Final

STEPS: Final = 1_024
BITS: Final = 62
EPOCH: Final = 64


def _weights() -> list[int]:
    """2^(k / STEPS) * 2^BITS for each step k of a half-life, rounded down. By integer square roots with 400 bits, which
    are the same everywhere."""
    bits = 400
    root = 2 << bits
    for _ in range(STEPS.bit_length() - 1):
        root = isqrt(root << bits)
    powers = accumulate(range(STEPS - 1), lambda power, _: power * root >> bits, initial=1 << bits)
    return [power >> (bits - BITS) for power in powers]


# The weight of each step, the weight of all steps before it within its half-life, and of all half-lives before.
WEIGHTS: Final = tuple(_weights())
BEFORE: Final = tuple(accumulate(WEIGHTS, initial=0))
PAST: Final = BEFORE[-1]


class Decay:
    """The clock of one half-life. `of` makes them; there is one for each half-life."""

    __slots__ = ("_at", "_last", "epoch_ms", "half_life_ms", "now_at", "now_epoch", "now_ms")

    def __init__(self, half_life_ms: int) -> None:
        self.half_life_ms = half_life_ms
        self.epoch_ms = EPOCH * half_life_ms
        self._last, self._at = (-1, -1), 0  # the arguments and the result of the last call
        # The last time of `move_to`, its epoch, and its clock from the landmark of that epoch.
        self.now_ms = self.now_epoch = self.now_at = -1

    def move_to(self, now_ms: int) -> None:
        """Compute the clock of a time at which many accounts change."""
        self.now_ms, self.now_epoch = now_ms, self.epoch(now_ms)
        self.now_at = self.at(now_ms, self.now_epoch)

    def epoch(self, at_ms: int) -> int:
        """The epoch of a time."""
        return at_ms // self.epoch_ms

    def at(self, at_ms: int, epoch: int) -> int:
        """The weight of all time up to `at_ms`, measured from the landmark of the epoch, which is not after it."""
        if self._last != (at_ms, epoch):
            steps, rest = divmod((at_ms - epoch * self.epoch_ms) * STEPS, self.half_life_ms)
            halves, step = divmod(steps, STEPS)
            self._at = ((PAST + BEFORE[step]) * self.half_life_ms + WEIGHTS[step] * rest) << halves
            self._last = (at_ms, epoch)
        return self._at


of = lru_cache(maxsize=1_024)(Decay)
