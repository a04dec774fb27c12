"""Facts about nodes and their reservations."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact, Tags


class NodeAdded(Fact):
    partition: str
    node_id: str
    attributes: Tags
    capacity: Resource
    occupied: Resource
    draining: bool


class NodeRejected(Fact):
    partition: str
    node_id: str
    reason: str


class NodeChanged(Fact):
    partition: str
    node_id: str
    attributes: Tags
    capacity: Resource
    occupied: Resource
    changed: tuple[str, ...]


class NodeDraining(Fact):
    partition: str
    node_id: str


class NodeSchedulable(Fact):
    partition: str
    node_id: str


class NodeRemoved(Fact):
    partition: str
    node_id: str


class NodeReserved(Fact):
    """The node is kept for one repeat of the ask; `resource` is what it wants. `by_preemption`: for what a preemption
    is to make room for, though its quota has none yet."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    by_preemption: bool = False


class NodeUnreserved(Fact):
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    reason: str
    by_preemption: bool = False
