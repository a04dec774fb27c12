"""How long nodes stay, in vectors: an amount of its own, which no allocation takes (semantics section 24).

A node that does not leave has more of it than any ask needs. So "ends before the node leaves" stays "covers". Vectors
have the amount only while some node of the partition leaves. It falls in steps as time passes: `Falls` says of which
nodes, in O(log n) for each step of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from ..limits import LEFTOVERS
from ..rules.leaving import ALWAYS_MS, lasting_ms, needed_ms, shorter_from_ms
from ..rules.resource import Resource
from ..state import Node, PendingAsk

# Its name beside resources, which no resource has.
LASTING: Final = "\ud801lasting"


def with_need(resource: Resource, ask: PendingAsk) -> Resource:
    """What the ask needs of a node, and for how long."""
    return {**resource, LASTING: needed_ms(ask.ask.tags, ask.ask.execution_timeout_ms)}


class Falls:
    """When nodes of a partition are left with less time. `now_ms`: the time that the amounts are of."""

    __slots__ = ("_at", "_heap", "_nodes", "now_ms")

    def __init__(self, nodes: Mapping[str, Node], now_ms: int) -> None:
        self.now_ms = now_ms
        self._nodes = nodes
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}  # by node ID: the entry of the heap that counts

    def amount(self, node: Node) -> int:
        """How long an allocation may run at most that starts on the node at `now_ms`."""
        return lasting_ms(node.leaves_ms, self.now_ms)

    def follow(self, node: Node) -> None:
        """The node leaves at another time than before, or it may."""
        at_ms = shorter_from_ms(node.leaves_ms, self.now_ms)
        if at_ms == self._at.get(node.id, ALWAYS_MS):
            return
        if at_ms < ALWAYS_MS:
            self._at[node.id] = at_ms
            heappush(self._heap, (at_ms, node.id))
            if len(self._heap) > 2 * len(self._at) + LEFTOVERS:  # times that changed before they came
                self._heap = sorted((at_ms, node_id) for node_id, at_ms in self._at.items())
        else:
            self._at.pop(node.id, None)

    def pass_to(self, now_ms: int) -> Iterator[Node]:
        """The nodes that are left with less time at `now_ms` than before, in no order. A clock set back changes
        nothing."""
        if now_ms <= self.now_ms:
            return
        self.now_ms, heap = now_ms, self._heap
        while heap and heap[0][0] <= now_ms:
            at_ms, node_id = heappop(heap)
            if self._at.get(node_id) == at_ms:
                del self._at[node_id]
                node = self._nodes.get(node_id)
                if node is not None:
                    self.follow(node)
                    yield node
