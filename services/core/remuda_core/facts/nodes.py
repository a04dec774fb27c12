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
    """The RM drains the node, or the operator does. The node is draining while either does."""

    partition: str
    node_id: str
    operator: str = ""
    reason: str = ""


class NodeSchedulable(Fact):
    """The RM, or the operator, no longer drains the node. `draining`: the other one still does."""

    partition: str
    node_id: str
    operator: str = ""
    draining: bool = False


class NodeRemoved(Fact):
    partition: str
    node_id: str


class NodeReserved(Fact):
    """The node is reserved for one allocation of the ask, which needs `resource`. `by_preemption`: a preemption under
    way makes room for it, also under its quotas."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    by_preemption: bool = False


class NodeUnreserved(Fact):
    """`timed_out`: it was reserved for as long as it may be. The ask waits anew before it reserves a node again."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    resource: Resource
    reason: str
    by_preemption: bool = False
    timed_out: bool = False
