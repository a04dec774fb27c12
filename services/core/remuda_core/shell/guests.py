"""The query `guests`: whether anything of guests has changed, in a few bytes, so that their engine reads only that."""

from __future__ import annotations

from typing import Any

from remuda_operations.queries.guests import tag_of_application, tag_of_nodes

from ..rules.required_node import required_node
from ..state import Application, Node, Partition
from . import views

View = dict[str, Any]


def partition_row(partition: Partition, queue: str) -> View:
    """`nodes`: a tag. `queue`: what this one may hold; None: it is not there."""
    found = partition.queues.get(queue)
    about = None if found is None else {"leaf": found.leaf, "max_in_force": views.max_in_force(partition, found)}
    return {"nodes": tag_of_nodes(map(_node, partition.nodes.values())), "queue": about}


def _node(node: Node) -> View:
    """The NODE_FIELDS of the row of a node."""
    return {
        "id": node.id, "attributes": node.attributes, "capacity": node.capacity, "occupied": node.occupied,
        "status": views.status(node),
    }  # fmt: skip


def application_row(name: str, application: Application) -> View:
    """`asks`: how many wait."""
    asks = [(one.ask.allocation_key, required_node(one.ask.tags)) for one in application.asks.values()]
    allocations = [
        (one.fact.uuid, one.fact.allocation_key, one.fact.node_id, bool(one.releasing))
        for one in application.allocations.values()
    ]
    tag = tag_of_application(asks, allocations)
    return {"partition": name, "id": application.id, "state": application.state, "asks": len(asks), "tag": tag}
