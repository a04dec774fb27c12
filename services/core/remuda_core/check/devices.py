"""Devices: what is booked on each of them, compared with what allocations and held room say (semantics section 20)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..facts import Allocated, PredicateAsked
from ..rules.devices import place_name, shares_of, split
from ..rules.required_node import is_protected
from ..rules.resource import Resource, items_of, show
from ..state import Node, Partition


def check_devices(partition: Partition) -> None:
    units = partition.settings.devices
    for node in (*partition.nodes.values(), *partition.unreported.values()):
        assert {name: devices.unit for name, devices in node.devices.items()} == dict(units), (
            f"node {node.id}: devices of {sorted(node.devices)}, configured are {sorted(units)}"
        )
        if units:
            for resource in units:
                _check_resource(partition, node, resource)


def _check_resource(partition: Partition, node: Node, resource: str) -> None:
    devices, what = node.devices[resource], f"node {node.id}: devices of {resource}"
    used: Counter[str] = Counter()
    for held in held_on(partition, node):
        names, amount = split(held.devices.get(resource, "")), held.resource.get(resource, 0)
        assert len(set(names)) == len(names), f"{what}: {names} are not different"
        assert names or amount <= 0 or not devices.room, f"{what}: {held} is on none"
        used.update(dict(zip(names, shares_of(amount, len(names)), strict=True)) if names else {})
    assert items_of(devices.used) == items_of(used), f"{what}: used {show(devices.used)}, counted anew {show(used)}"
    if not node.reported:
        return
    count = node.capacity.get(resource, 0) // devices.unit
    assert len(devices.room) == count, f"{what}: {len(devices.room)}, its capacity is of {count}"
    assert all(0 <= room <= devices.unit for room in devices.room.values()), f"{what}: room {devices.room}"
    taken = sum(devices.unit - room for room in devices.room.values())
    most = min(node.occupied.get(resource, 0), devices.unit * count)
    assert taken == most, f"{what}: {taken} is occupied, expected {most}"
    on_its_devices = sum(amount for name, amount in used.items() if name in devices.room)
    free = devices.unit * count - taken - on_its_devices
    assert sum(devices.free()) == free, f"{what}: free are {devices.free()}, expected {free} in all"


def held_on(partition: Partition, node: Node) -> Iterator[Allocated | PredicateAsked]:
    """Allocations on the node, and room that is held for some."""
    yield from (allocation.fact for allocation in node.allocations.values())
    yield from (arriving.fact for arriving in node.arriving.values())
    yield from (question.fact for question in partition.questions.values() if question.node is node)


def available_with_devices(node: Node) -> Resource:
    """`node.available()`, and what is free on each device, the largest first."""
    return {**node.available(), **_places(node, {name: devices.used for name, devices in node.devices.items()})}


def obtainable_with_devices(node: Node) -> Resource:
    """`node.obtainable()`, and what is free on each device then."""
    stays: dict[str, dict[str, int]] = {name: {} for name in node.devices}
    for allocation in node.allocations.values():
        fact = allocation.fact
        for resource, names in fact.devices.items() if is_protected(fact.tags) else ():
            if resource in stays:
                devices = split(names)
                for name, share in zip(devices, shares_of(fact.resource.get(resource, 0), len(devices)), strict=True):
                    stays[resource][name] = stays[resource].get(name, 0) + share
    return {**node.obtainable(), **_places(node, stays)}


def _places(node: Node, used: Mapping[str, Mapping[str, int]]) -> Resource:
    found = {}
    for resource, devices in node.devices.items():
        free = [
            0 if name in devices.unfit else max(0, room - used[resource].get(name, 0))
            for name, room in devices.room.items()
        ]
        for place, amount in enumerate(sorted(free, reverse=True), start=1):
            found[place_name(resource, place)] = amount
    return found
