"""The devices of an allocation (semantics section 20): chosen with its node, and booked with it."""

from __future__ import annotations

from ..facts import Allocated, Tags
from ..rules.devices import (
    NO_DEVICES,
    DeviceNeed,
    choose,
    fits,
    most_free,
    named,
    needs,
)
from ..rules.prices import CPU, is_share
from ..rules.resource import Resource
from ..state import Node, Partition


def needs_on(node: Node, resource: Resource, tags: Tags) -> tuple[DeviceNeed, ...]:
    """The device needs of an ask on the node."""
    return needs({name: devices.unit for name, devices in node.devices.items()}, resource, tags)


def chosen(partition: Partition, node: Node, resource: Resource, tags: Tags) -> Tags:
    """The devices for an ask that fits the node."""
    found = {}
    for need in needs(partition.settings.devices, resource, tags):
        devices = node.devices[need.resource]
        positions = choose_on(partition, node, need, resource)
        assert positions, f"{node.id} has no devices for {need}: the ask does not fit it"
        found[need.resource] = devices.names_at(positions)
    return found or NO_DEVICES


def choose_on(partition: Partition, node: Node, need: DeviceNeed, resource: Resource) -> list[int]:
    """The positions of the devices for an ask of this resource; empty if there are too few."""
    free, prices = node.devices[need.resource].offered(), partition.prices
    if prices is None or not is_share(need, prices.unit):
        return choose(free, need.share, need.devices)
    cpu = node.capacity.get(CPU, 0) - node.occupied.get(CPU, 0) - node.allocated.get(CPU, 0)
    position = prices.choose(free, need, resource.get(CPU, 0), prices.slack(cpu, free))
    return [position] if position >= 0 else []


def of_running(partition: Partition, node: Node, allocation: Allocated) -> Tags:
    """The devices of an allocation that runs on the node: those that its tags name, else those that an ask like it
    would get, else those with most free. None of a resource of which the node has no devices."""
    found = {}
    for name, devices in node.devices.items():
        amount = allocation.resource.get(name, 0)
        if amount <= 0 or not devices.room:
            continue
        if name in allocation.devices:
            found[name] = allocation.devices[name]
        elif by_tag := named(allocation.tags, name):
            found[name] = by_tag
        else:
            (need,) = needs({name: devices.unit}, allocation.resource, allocation.tags)
            positions = choose_on(partition, node, need, allocation.resource)
            if not positions:
                whole = fits(amount, need.devices, devices.unit)
                positions = most_free(devices.free(), need.devices if whole else -(-amount // devices.unit))
            found[name] = devices.names_at(positions)
    return found or NO_DEVICES
