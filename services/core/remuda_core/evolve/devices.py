"""Devices of nodes (semantics section 20): which ones a node has, and what is booked on them."""

from __future__ import annotations

from msgspec.structs import replace

from .. import facts
from ..rules.devices import named, shares_of, split
from ..rules.prices import PRICES, Prices
from ..state import Allocation, Devices, Node, Partition, State
from .booking import book_devices


def lay_out_devices(partition: Partition, node: Node) -> None:
    """The node has other devices now, or others occupy other amounts of them. What is booked stays booked."""
    for resource, unit in partition.settings.devices.items():
        devices = node.devices.get(resource)
        if devices is None:
            devices = node.devices[resource] = Devices(unit)
        devices.lay_out(
            resource, node.capacity, node.attributes, node.occupied.get(resource, 0), _of_rejected(node, resource)
        )


def _of_rejected(node: Node, resource: str) -> list[tuple[str, int]]:
    """The devices that the tags of rejected allocations name, each with the amount that the allocation occupies on
    it."""
    found: list[tuple[str, int]] = []
    for one in node.rejected.values():
        names = split(named(one.fact.tags, resource))
        if names:
            found += zip(names, shares_of(one.fact.resource.get(resource, 0), len(names)), strict=True)
    return found


def devices_changed(partition: Partition) -> None:
    """Other resources stand on devices than before."""
    for node in (*partition.nodes.values(), *partition.unreported.values()):
        node.devices = {}
        lay_out_devices(partition, node)
        for allocation in node.allocations.values():
            book_devices(node, allocation.fact, 1)
        for arriving in node.arriving.values():
            book_devices(node, arriving.fact, 1)
    for question in partition.questions.values():
        book_devices(question.node, question.fact, 1)


def work_measured(state: State, fact: facts.WorkMeasured) -> bool:
    """Returns whether prices are others now."""
    partition = state.partitions[fact.partition]
    was, partition.work, partition.measured_ms = partition.work, fact, state.now_ms
    if was is not None and (was.shares, was.cpu_of_device) == (fact.shares, fact.cpu_of_device):
        return False
    set_prices(partition)
    return True


def set_prices(partition: Partition) -> None:
    """The prices of a partition whose node sort policy has some, by what work on devices is like."""
    settings, work = partition.settings, partition.work
    partition.prices = None
    if settings.node_sort in PRICES and settings.devices:
        ((resource, unit),) = settings.devices.items()
        shares = tuple(share for share in work.shares if share <= unit) if work is not None else ()
        cpu = work.cpu_of_device if work is not None else 0
        partition.prices = Prices(settings.node_sort, resource, unit, shares, cpu)


def devices_assigned(state: State, fact: facts.DevicesAssigned) -> Allocation:
    allocation = state.partitions[fact.partition].allocations[fact.uuid]
    book_devices(allocation.node, allocation.fact, -1)
    allocation.fact = replace(allocation.fact, devices=fact.devices)
    book_devices(allocation.node, allocation.fact, 1)
    return allocation
