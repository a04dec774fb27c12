"""Prices of places under the node sort policy `fragmentation` (semantics section 20).

A place is a node with the devices that an ask would get there. Its price is what common work can no longer take of the
node then, in amounts of the resource on devices: pure functions of whole numbers. The lowest price is the best. To add
a policy, add its function, its line in PRICES, and its name to SCORES and to the verifier (`remuda_config.verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from .devices import DeviceNeed

CPU: Final = "vcore"

# A share is common if at least so many of all allocations that have one device in shares have it, in per cent.
COMMON_PERCENT: Final = 3
# So many steps of a price are a device. Prices within a step are equal, so that the order of nodes decides and keeps
# others empty for asks that want many devices.
STEPS: Final = 200
# The CPU of common work is another when it has changed by more than this, in per cent: prices change with it.
TOLERATED_PERCENT: Final = 10
# The largest unit that the policy takes: it keeps a number for every amount of a device.
LARGEST_UNIT: Final = 10_000

# price(loss, worth, slack). `loss`: what common shares can take of the devices before and not after. `worth`: the
# amount of devices that common work uses with the CPU which the ask takes. `slack`: the amount of devices that the
# node's CPU could serve, less what common shares can take of its devices; both before.
Price = Callable[[int, int, int], int]
MUCH: Final = 2**62  # more than any slack


def fill_price(loss: int, worth: int, slack: int) -> int:
    """The loss on devices; at least the CPU's worth, if the CPU that is left could not serve what devices can still
    take."""
    return max(loss, worth) if slack < worth - loss else loss


FRAGMENTATION: Final = "fragmentation"
PRICES: Final[Mapping[str, Price]] = {FRAGMENTATION: fill_price}


def fill_table(unit: int, shares: Iterable[int]) -> list[int]:
    """Computes for each amount up to the unit the most that these shares can take of a device with so much free.
    Without shares only a whole device is of use."""
    sizes, table = sorted(set(shares)), [0] * (unit + 1)
    for free in range(1, unit + 1):
        table[free] = max(table[free - 1], *(table[free - size] + size for size in sizes if size <= free), 0)
    if not sizes:
        table[unit] = unit
    return table


class Prices:
    """The prices of a partition, whose one resource on devices has this unit. `shares`: the common ones. `cpu`: what
    common work uses for one device; 0: nothing."""

    def __init__(self, policy: str, resource: str, unit: int, shares: Sequence[int] = (), cpu: int = 0) -> None:
        self.price = PRICES[policy]
        self.resource, self.unit, self.cpu = resource, unit, cpu
        self.fill = fill_table(unit, shares)
        self._step = max(1, unit // STEPS)

    def slack(self, cpu: int, free: Iterable[int]) -> int:
        """The slack of a node with so much CPU available, and so much free on each device."""
        fill = self.fill
        return self.worth(cpu) - sum([fill[amount] for amount in free])

    def worth(self, cpu: int) -> int:
        """The amount of devices that common work uses with so much CPU. If common work uses none, it is never short."""
        return cpu * self.unit // self.cpu if self.cpu else 0 if cpu < 0 else MUCH

    def worth_of_ask(self, cpu: int) -> int:
        return cpu * self.unit // self.cpu if self.cpu else 0

    def loss(self, need: DeviceNeed | None, level: int) -> int:
        """The amount that the ask takes from common shares: of a share on a device with `level` free; of several
        shares, and of whole devices, on whole ones, whatever the devices are."""
        if need is None:
            return 0
        if not is_share(need, self.unit):
            level = self.unit
        return need.devices * (self.fill[level] - self.fill[max(0, level - need.share)])

    def steps(self, price: int) -> int:
        return -(-price // self._step)

    def steps_of(self, need: DeviceNeed | None, level: int, cpu: int, slack: int) -> int:
        """The price in steps."""
        return self.steps(self.price(self.loss(need, level), self.worth_of_ask(cpu), slack))

    def choose(self, free: Sequence[int], need: DeviceNeed, cpu: int, slack: int) -> int:
        """The position of the device for a share: the one of lowest price; of these the one with least free, then the
        first. -1: the share fits none."""
        fill, share, worth, price = self.fill, need.share, self.worth_of_ask(cpu), self.price
        best = least = 0
        position, seen = -1, -1
        for at, level in enumerate(free):
            if level < share or level == seen:
                continue
            seen = level
            steps = self.steps(price(fill[level] - fill[level - share], worth, slack))
            if position < 0 or steps < best or (steps == best and level < least):
                best, least, position = steps, level, at
        return position


def is_share(need: DeviceNeed, unit: int) -> bool:
    """Whether the ask wants a part of one device."""
    return need.devices == 1 and need.share < unit


def common_work(unit: int, asks: Iterable[tuple[DeviceNeed, int]]) -> tuple[tuple[int, ...], int]:
    """(common shares, CPU that work uses for one device) of work on devices. `asks`: what each needs, and its CPU."""
    counts: dict[int, int] = {}
    amount = cpu = 0
    for need, own_cpu in asks:
        amount += need.share * need.devices
        cpu += own_cpu
        if is_share(need, unit):
            counts[need.share] = counts.get(need.share, 0) + 1
    least = sum(counts.values()) * COMMON_PERCENT
    return tuple(sorted(share for share, count in counts.items() if 100 * count >= least)), (
        cpu * unit // amount if amount else 0
    )


def differs(had: int, now: int) -> bool:
    """Whether the CPU of common work has changed by more than TOLERATED_PERCENT."""
    return abs(now - had) * 100 > had * TOLERATED_PERCENT


def prices_in_order(price: Price, loss: int, worth: int) -> Iterator[tuple[int, int]]:
    """(price, least slack) of places that differ in slack alone, the lowest price first."""
    ample, scarce = price(loss, worth, MUCH), price(loss, worth, -MUCH)
    if ample < scarce:
        yield ample, worth - loss
    yield scarce, -MUCH
