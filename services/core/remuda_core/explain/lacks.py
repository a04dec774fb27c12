"""How much an ask lacks on a node: in all, and on devices."""

from __future__ import annotations

from typing import NamedTuple

from ..cycle.devices import needs_on
from ..facts import Ask
from ..index.devices import obtainable_on_devices
from ..rules.devices import DeviceNeed
from ..state import Node


def never_fits(ask: Ask, node: Node) -> float:
    """How much is missing even when everything that can leave the node has left it. 0: the ask fits then."""
    return missing(ask, node, all_left=True)


def missing(ask: Ask, node: Node, *, all_left: bool = False) -> float:
    """The sum over resources of the part of the need that is not available on the node, and over resources on devices
    of the part of its share that the ask lacks on the last of the devices that it wants. 0: the ask fits. A resource
    that is overbooked and not needed adds 1, because nothing fits on that node. `all_left`: when everything has left
    that can leave."""
    need = ask.resource
    capacity, occupied = node.capacity, node.occupied
    allocated = node.bound if all_left else node.allocated
    lacking = 0.0
    for name, amount in need.items():
        if amount > 0:
            have = capacity.get(name, 0) - occupied.get(name, 0) - allocated.get(name, 0)
            if amount > have:
                lacking += (amount - max(have, 0)) / amount
    for name, used in allocated.items():
        if used and used + occupied.get(name, 0) > capacity.get(name, 0) and not need.get(name):
            lacking += 1.0
    for name, used in occupied.items():
        if used > capacity.get(name, 0) and not allocated.get(name) and not need.get(name):
            lacking += 1.0
    for lack in lacks_on_devices(ask, node, all_left=all_left) if node.devices else ():
        lacking += (lack.need.share - lack.have) / lack.need.share
    return lacking


class DeviceLack(NamedTuple):
    """`have`: what is free on the last of the devices that the ask wants. `free`: on all of them, the most first."""

    need: DeviceNeed
    have: int
    free: list[int]


def lacks_on_devices(ask: Ask, node: Node, *, all_left: bool) -> list[DeviceLack]:
    found = []
    for need in needs_on(node, ask.resource, ask.tags):
        devices = node.devices[need.resource]
        offered = obtainable_on_devices(node, need.resource) if all_left else devices.offered()
        free = sorted(offered, reverse=True)
        have = free[need.devices - 1] if need.devices <= len(free) else 0
        if have < need.share:
            found.append(DeviceLack(need, have, free))
    return found
