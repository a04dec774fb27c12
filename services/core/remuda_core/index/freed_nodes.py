"""Track freed nodes: nodes that gained room while asks wait.

Of the closed demands that fit a freed node, one or two fill it again, and the others would open only to be closed
again, one search for a node each. So they stay closed, and the node is listed here with their bits. They count as
schedulable as long as the node has the room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..limits import FREED_NODES
from ..state import Node
from .demands import Demands
from .fit_list import Vector, covers
from .node_groups import Demand
from .nodes import NodeIndex


class Index(Protocol):
    """The partition's index, as freed nodes see it."""

    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def demands(self) -> Demands: ...
    def open(self, demand: Demand) -> None: ...


class FreedNodes:
    def __init__(self, index: Index) -> None:
        self._index = index
        # The closed demands that fit each, as bits; some more may be among them, also because the node has less room
        # than it had.
        self.nodes: dict[Node, int] = {}

    def add_node(self, node: Node, room: Vector) -> None:
        """The node gained room: it has this one now."""
        self._index.demands.risen += 1
        self._set(node, room)
        if len(self.nodes) > FREED_NODES:
            self.open_all()

    def _set(self, node: Node, room: Vector) -> None:
        bits = self._index.demands.closed_in(room)
        if bits:
            self.nodes[node] = bits
            self._changed()
        elif node in self.nodes:
            self._drop(node)

    def _changed(self) -> None:
        bits = 0
        for each in self.nodes.values():
            bits |= each
        self._index.demands.freed(bits)

    def _drop(self, node: Node) -> None:
        del self.nodes[node]
        self._changed()

    def shrunk(self, node: Node) -> None:
        """The node has less room than it had. Does nothing if it is not a freed one."""
        if node in self.nodes:
            group = self._index.nodes.group_of(node)
            if group is None:
                self._drop(node)
            else:
                self._set(node, group.available)

    def any_fits(self, demand: Demand) -> bool:
        """Whether one of the freed nodes has room for a closed demand. It is not one of those that open singly."""
        if not self.nodes or demand.closed_list is not self._index.demands.closed:
            return False
        return next(self._with_room(demand), None) is not None

    def only_node(self, demand: Demand) -> Node | None:
        """The freed node that has room for a closed demand; None if there are more than one, or none."""
        fitting = self._with_room(demand)
        node = next(fitting, None)
        return node if next(fitting, None) is None else None

    def _with_room(self, demand: Demand) -> Iterator[Node]:
        bit, nodes = demand.bit, self._index.nodes
        for node, bits in list(self.nodes.items()):
            if bits & bit:
                group = nodes.group_of(node)
                if group is not None and covers(group.available, demand.need):
                    yield node
                else:
                    self.shrunk(node)

    def open_all(self) -> None:
        """Open every demand that fits a freed node, and list no node any more."""
        if not self.nodes:
            return
        freed, self.nodes = self.nodes, {}
        self._index.demands.freed(0)
        for node in freed:
            group = self._index.nodes.group_of(node)
            if group is not None:
                for demand in self._index.demands.closed_that_fit(group.available):
                    self._index.open(demand)
