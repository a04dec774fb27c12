"""Devices in vectors: what is free on each device of a node is an amount of its own, the largest first.

So an ask for equal shares of n devices fits where the n-th amount covers the share, and "fits" stays "covers"
(semantics section 20).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from ..rules.devices import DeviceNeed, is_place, needs, never_free, place_name
from ..rules.required_node import is_protected
from ..rules.resource import Items, Resource, items_of
from ..state import Allocation, Devices, Node, Partition, PendingAsk
from .lasting import with_need


def places_of(node: Node) -> Iterable[str]:
    """Names of the amounts of its devices."""
    for resource, devices in node.devices.items():
        for place in range(1, len(devices.room) + 1):
            yield place_name(resource, place)


def places_available(node: Node) -> Resource:
    """The amounts that asks may take of the node's devices, by place."""
    found: dict[str, int] = {}
    for resource, devices in node.devices.items():
        _put(found, resource, devices.offered())
    return found


def places_obtainable(node: Node) -> Resource:
    """The amounts that asks may take of the node's devices, by place, once all allocations have left that can leave."""
    found: dict[str, int] = {}
    for resource in node.devices:
        _put(found, resource, obtainable_on_devices(node, resource))
    return found


def obtainable_on_devices(node: Node, resource: str) -> list[int]:
    """The amounts that asks may take of each device, by position, once all allocations have left that can leave."""
    devices = node.devices[resource]
    stays = Devices(devices.unit, devices.room, devices.unfit)
    for allocation in node.allocations.values() if node.bound.get(resource) else ():
        fact = allocation.fact
        if resource in fact.devices and is_protected(fact.tags):
            stays.book(fact.devices[resource], fact.resource.get(resource, 0), 1)
    return stays.offered()


def places_without(node: Node, leaving: Iterable[Allocation]) -> Resource:
    """The amounts that asks may take of the node's devices, by place, once these allocations have left."""
    found: dict[str, int] = {}
    for resource, devices in node.devices.items():
        _put(found, resource, free_without(devices, resource, leaving))
    return found


def free_without(devices: Devices, resource: str, leaving: Iterable[Allocation]) -> list[int]:
    """The amounts that asks may take of each device, by position, without these allocations."""
    without = Devices(devices.unit, devices.room, devices.unfit, dict(devices.used))
    for allocation in leaving:
        fact = allocation.fact
        if resource in fact.devices:
            without.book(fact.devices[resource], fact.resource.get(resource, 0), -1)
    return without.offered()


def _put(found: dict[str, int], resource: str, free: list[int]) -> None:
    for place, amount in enumerate(sorted(free, reverse=True), start=1):
        if not amount:
            return
        found[place_name(resource, place)] = amount


def places_in(names: Mapping[str, int], resource: str) -> tuple[int, ...]:
    """The places of its devices in vectors, the one with most free first."""
    found: list[int] = []
    while (name := place_name(resource, len(found) + 1)) in names:
        found.append(names[name])
    return tuple(found)


def needed_amounts(names: Container[str], items: Items) -> dict[str, int]:
    """The amounts of a demand. An ask for more devices than any node has needs what is never free."""
    return {name if name in names or not is_place(name) else never_free(name): amount for name, amount in items}


def items_with(resource: Resource, needs: Iterable[DeviceNeed]) -> Items:
    """The needs of an ask on a node as a key: its resource, and of each resource on devices its share on as many
    devices as it wants."""
    return items_of({**resource, **{place_name(need.resource, need.devices): need.share for need in needs}})


def items_of_ask(partition: Partition, ask: PendingAsk) -> Items:
    units, resource = partition.settings.devices, ask.ask.resource
    audiences = partition.audiences
    amounts = with_need(resource, ask, audiences) if audiences else resource
    return items_with(amounts, needs(units, resource, ask.ask.tags)) if units else items_of(amounts)
