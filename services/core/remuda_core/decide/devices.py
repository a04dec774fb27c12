"""Devices of what was booked without them: its resource stands on devices since a configuration, or its node has
devices since an update (semantics section 20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import facts
from ..cycle.devices import of_running
from ..facts import Fact
from ..state import Node, Partition, Question, Replacement
from .allocation import replacement_cancelled
from .predicate import withdrawn

REASON = "its node has other devices now"


def assign_devices(partition: Partition, nodes: Iterable[Node]) -> Iterator[Fact]:
    """Allocations without devices get them in the order of their UUIDs. Room without devices that is held for asks is
    given back, and they are placed anew."""
    nodes = [node for node in nodes if node.devices]
    for question in [one for one in partition.questions.values() if one.node in nodes and lacks_devices(one)]:
        yield withdrawn(question, REASON)
    for node in nodes:
        for arriving in [one for one in node.arriving.values() if lacks_devices(one)]:
            yield replacement_cancelled(arriving, REASON)
        for _, allocation in sorted(node.allocations.items()):
            devices = {**allocation.fact.devices, **of_running(partition, node, allocation.fact)}
            if devices != allocation.fact.devices:
                if allocation.replacement is not None:
                    yield replacement_cancelled(allocation.replacement, REASON)
                yield facts.DevicesAssigned(partition.name, allocation.fact.uuid, devices)


def lacks_devices(held: Question | Replacement) -> bool:
    """Whether the held room lacks devices that it needs."""
    fact, node = held.fact, held.node
    return any(
        fact.resource.get(name, 0) > 0 and devices.room and name not in fact.devices
        for name, devices in node.devices.items()
    )
