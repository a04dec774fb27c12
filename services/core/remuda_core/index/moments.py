"""The moments at which effective shares are measured (semantics section 23), and what has to be ranked again as time
passes.

A share without present use keeps its place among others of the same half-life: all of them shrink alike. Shares are
therefore compared on a scale that grows with the clock, and on which the share of a member without use never changes.
Members with use are ranked again once in each step of the clock: queues all of them, applications and users as far as
they come first. Within a step, and so within a pass, all shares are measured at one moment: the end of the step,
`ahead` later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from ..limits import STEPS_PER_RANK
from ..rules import decay
from ..rules.decay import EPOCH, STEPS
from ..rules.properties import Memory
from ..state import Account
from .trees import PassBudget

# (place, rest) of a share on the scale that grows with the clock: PLACE^place * rest, where 1 <= rest < PLACE. They
# compare like numbers of any size.
Share = tuple[int, float]
NO_SHARE: Final[Share] = (-(2**60), 0.0)
PLACE_BITS: Final = 512
PLACE: Final = 2.0**PLACE_BITS
# The shortest step: passes follow each other more closely than that.
STEP_MS: Final = 1_000


class Growing(Protocol):
    """An order that ranks members by their effective shares."""

    # The members with use, whose shares change as time passes.
    growing: dict[Any, None]

    def outdate(self, *, is_new_epoch: bool) -> list[Any]: ...
    def rank_again(self, member: Any) -> None: ...
    def settle_ranks(self) -> None: ...


class Moment:
    """The moment of one half-life and one `fair.ahead`."""

    __slots__ = (
        "ahead_ms",
        "clock",
        "decay",
        "epoch",
        "growing",
        "is_new_epoch",
        "now_step",
        "place",
        "scale",
        "step_ms",
    )

    def __init__(self, half_life_ms: int, ahead_ms: int, now_ms: int) -> None:
        self.decay = decay.of(half_life_ms)
        self.ahead_ms = ahead_ms
        self.step_ms = max(STEP_MS, half_life_ms // STEPS)
        # The orders that have growing members.
        self.growing: dict[Growing, None] = {}
        self.now_step = -1
        self.epoch = self.clock = 0
        # The factor of the shares of this epoch, and the place of the product as a `Share`.
        self.place, self.scale = 0, 1.0
        # Whether the present step is the first of its epoch.
        self.is_new_epoch = False
        self.move_to(now_ms)

    def move_to(self, now_ms: int) -> bool:
        """Follow the time. Returns whether a step has ended."""
        step = now_ms // self.step_ms
        if step == self.now_step:
            return False
        self.now_step = step
        at_ms = (step + 1) * self.step_ms + self.ahead_ms
        before, self.epoch = self.epoch, self.decay.epoch(now_ms)
        self.is_new_epoch = self.epoch != before
        self.clock = self.decay.at(at_ms, self.epoch)
        self.place, bits = divmod(EPOCH * self.epoch, PLACE_BITS)
        self.scale = 2.0**bits
        return True

    def share(self, account: Account, due: Mapping[str, int], one: int = 1) -> Share:
        """The effective share: the highest of value / due over all resources. A resource of which nothing is due counts
        1 while it is used. `one`: in which part of a unit `due` is given."""
        used, past = account.used, account.past
        gained = self.clock - account.clock
        if gained >= 0 and account.epoch == self.epoch and len(used) == len(past):
            # Nearly always: all that was used is used now, and something of it is due.
            highest = 0.0
            try:
                for name, amount in used.items():
                    share = (past[name] + amount * gained) / due[name]
                    if share > highest:
                        highest = share
            except (KeyError, ZeroDivisionError):
                return self._share_since(account, due, one)
            highest *= self.scale
            return (self.place, highest) if 1.0 <= highest < PLACE else _placed(highest, self.place)
        return self._share_since(account, due, one)

    def _share_since(self, account: Account, due: Mapping[str, int], one: int) -> Share:
        """The effective share of any account: some resource is used no more or not due, or the account was last settled
        in an earlier epoch. Or after the moment, if ranks are looked at after the pass they are for."""
        bits = EPOCH * max(self.epoch - account.epoch, 0)
        epoch, clock = self.epoch, self.clock
        if account.epoch > epoch or (account.epoch == epoch and account.clock > clock):
            epoch, clock = account.epoch, account.clock
        used, past, highest = account.used, account.past, NO_SHARE
        for name, amount in used.items():
            if amount:
                value = (past.get(name, 0) - amount * account.clock >> bits) + amount * clock
                highest = max(highest, _scaled(value / due[name] if due.get(name) else clock / one, epoch))
        for name, value in past.items():
            if not used.get(name) and due.get(name):
                highest = max(highest, _scaled(value / due[name], account.epoch))
        return highest


def _scaled(share: float, epoch: int) -> Share:
    place, bits = divmod(EPOCH * epoch, PLACE_BITS)
    return _placed(share * 2.0**bits, place)


def _placed(share: float, place: int) -> Share:
    """The share as a `Share`. It is that often multiplied or divided by a power of 2, so nothing is rounded."""
    if not share:
        return NO_SHARE
    while share >= PLACE:
        share, place = share / PLACE, place + 1
    while share < 1.0:
        share, place = share * PLACE, place - 1
    return place, share


class Moments:
    """The moments of a partition, and the orders whose members have to be ranked again before the next look-up."""

    def __init__(self, budget: PassBudget, now_ms: int) -> None:
        self._budget = budget
        self._now_ms = now_ms
        self._of: dict[tuple[int, int], Moment] = {}
        self.stale: list[tuple[Growing, list[Any]]] = []

    def of(self, memory: Memory) -> Moment | None:
        """The moment of a queue with this memory; None: it has none."""
        if not memory.half_life_ms:
            return None
        key = memory.half_life_ms, memory.ahead_ms
        moment = self._of.get(key)
        if moment is None:
            moment = self._of[key] = Moment(*key, self._now_ms)
        return moment

    def begin_pass(self, now_ms: int) -> None:
        self._now_ms = now_ms
        moved = [moment for moment in self._of.values() if moment.move_to(now_ms)]
        for moment in moved:
            orders, moment.growing = moment.growing, {}
            for order in orders:
                members = order.outdate(is_new_epoch=moment.is_new_epoch)
                if members:
                    self.stale.append((order, members))
                if order.growing:
                    moment.growing[order] = None

    def catch_up(self, *, at_any_cost: bool = False) -> bool:
        """Rank all growing members again. False: the budget of the pass is spent; the next pass continues."""
        budget = self._budget
        while self.stale:
            order, members = self.stale[-1]
            while members and (at_any_cost or budget.left > 0):
                budget.left -= STEPS_PER_RANK
                order.rank_again(members.pop())
            order.settle_ranks()
            if members:
                budget.found = True  # the next pass continues here, and needs no larger budget
                return False
            self.stale.pop()
        return True
