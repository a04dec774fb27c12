"""DrainNode and UndrainNode. The RM and operators drain a node independently; an operator lifts only what an operator
has done."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_proto.bounds import shown

from ... import facts
from ...actions import DrainNode, UndrainNode
from ...commands import Administer
from ...facts import Fact
from ...limits import DRAINS
from ...state import Partition, State
from ..node import drained
from .problem import Problem, problems_of_nodes


def problems_of_drain(state: State, partition: Partition, command: Administer, action: DrainNode) -> Iterator[Problem]:
    yield from problems_of_nodes(command)
    node = partition.nodes.get(action.node_id)
    if node is None:
        yield Problem(f"nodeID {shown(action.node_id)} does not exist")
    elif node.drained is not None:
        yield Problem(f"nodeID {shown(action.node_id)} is drained by {node.drained.operator} already")
    elif len(state.drains) >= DRAINS:
        yield Problem(
            f"operators drain {len(state.drains)} nodes of the resource manager, expected fewer than {DRAINS}"
        )


def drain_node(
    state: State, partition: Partition, command: Administer, action: DrainNode, now_ms: int
) -> Iterator[Fact]:
    yield from drained(partition, partition.nodes[action.node_id], command.operator, command.reason)


def problems_of_undrain(
    state: State, partition: Partition, command: Administer, action: UndrainNode
) -> Iterator[Problem]:
    yield from problems_of_nodes(command)
    if (partition.name, action.node_id) in state.drains:
        return
    node = partition.nodes.get(action.node_id)
    if node is None:
        yield Problem(f"nodeID {shown(action.node_id)} does not exist")
    else:
        by_rm = ", only by the resource manager" if node.drained_by_rm else ""
        yield Problem(f"nodeID {shown(action.node_id)} is not drained by an operator{by_rm}")


def undrain_node(
    state: State, partition: Partition, command: Administer, action: UndrainNode, now_ms: int
) -> Iterator[Fact]:
    node = partition.nodes.get(action.node_id)
    by_rm = node is not None and node.drained_by_rm
    yield facts.NodeSchedulable(partition.name, action.node_id, command.operator, by_rm)
