"""Where the asks of a packed application go: to a node on which the application has an allocation already, if one of
them has room, so that it stays on few nodes (001, "assign multiple containers in one go"; semantics section 10).

Only partitions with `pack: application` have this. The nodes of an application are listed by ID, each with at least the
room that it has: other allocations may have taken some, which a search that comes across the node finds out, and a node
that gains room is listed with that at once. O(log n) for each allocation, and for each node that a search finds to have
less room than listed; O(log n) for each application on a node that gains room. The nodes of an application are listed
at its first search, and until it has ended.
"""

from __future__ import annotations

from ..state import Application, Node, Partition
from .fit_list import HIDDEN, FitList, Rank, Vector, covers
from .node_groups import Demand
from .nodes import NodeIndex
from .work import Work


class PackedNode:
    """A node with `count` allocations of an application. `room`: at least what is available there; unlisted, `rank` is
    None: it takes nothing new."""

    __slots__ = ("count", "node", "rank", "room")

    def __init__(self, node: Node, count: int) -> None:
        self.node = node
        self.count = count
        self.rank: Rank | None = None
        self.room: Vector = HIDDEN


class Pack:
    """The nodes of an application by ID, and those of them that may have room, in the order of IDs."""

    __slots__ = ("nodes", "order")

    def __init__(self, width: int) -> None:
        self.nodes: dict[str, PackedNode] = {}
        self.order: FitList[PackedNode] = FitList(width)

    def list(self, packed: PackedNode, room: Vector | None) -> None:
        """Put the node where this room says; None: it takes nothing new."""
        self.order.remove(packed)
        if room is not None:
            packed.room = room
            self.order.put(packed, (packed.node.id,))


class Packs:
    def __init__(self, partition: Partition, nodes: NodeIndex, work: Work) -> None:
        self._partition = partition
        self._index = nodes
        self._work = work
        self.of: dict[Application, Pack] = {}
        # By node ID: the packs that list the node.
        self._on: dict[str, dict[Pack, None]] = {}

    def best(self, application: Application, demand: Demand) -> Node | None:
        """Of the nodes with allocations of the application that the demand fits, the one with the smallest ID. None: no
        such node has room, or the ask is bound to a node."""
        if demand.required_node or not application.allocations:
            return None
        pack, start = self.of.get(application) or self._made(application), Rank()
        while (packed := pack.order.first(demand.need, start)) is not None:
            room = self._room(packed.node)
            if room is None or not covers(room, demand.need):
                self._work.left -= 1
                pack.list(packed, room)
            elif demand.avoids(packed.node.id):
                start = (packed.node.id, 0)  # right behind it
            else:
                return packed.node
        return None

    def _room(self, node: Node) -> Vector | None:
        group = self._index.group_of(node)
        return group.available if group is not None else None

    def _made(self, application: Application) -> Pack:
        pack = self.of[application] = Pack(self._index.width)
        for allocation in application.allocations.values():
            self._add(pack, allocation.node)
        return pack

    def _add(self, pack: Pack, node: Node) -> None:
        packed = pack.nodes.get(node.id)
        if packed is not None:
            packed.count += 1
            return
        packed = pack.nodes[node.id] = PackedNode(node, 1)
        self._on.setdefault(node.id, {})[pack] = None
        pack.list(packed, self._room(node))

    # Changes by facts

    def allocated(self, application: Application, node: Node) -> None:
        """The application has one more allocation on the node."""
        pack = self.of.get(application)
        if pack is not None:
            self._add(pack, node)

    def released(self, application: Application, node: Node) -> None:
        """It has one less."""
        pack = self.of.get(application)
        if pack is None:
            return
        packed = pack.nodes[node.id]
        packed.count -= 1
        if not packed.count:
            pack.order.remove(packed)
            del pack.nodes[node.id]
            self._left(pack, node.id)

    def gained_room(self, node: Node) -> None:
        """The node has more room than before, or takes new allocations again."""
        packs = self._on.get(node.id)
        room = self._room(node) if packs else None
        if packs and room is not None:
            for pack in packs:
                packed = pack.nodes[node.id]
                if packed.rank is None or not covers(packed.room, room):
                    pack.list(packed, room)

    def forget(self, application: Application) -> None:
        """The application has ended."""
        pack = self.of.pop(application, None)
        if pack is not None:
            for node_id in pack.nodes:
                self._left(pack, node_id)

    def _left(self, pack: Pack, node_id: str) -> None:
        packs = self._on[node_id]
        del packs[pack]
        if not packs:
            del self._on[node_id]
