"""The times that nodes stay, in vectors: amounts of their own, which no allocation takes (semantics sections 24 and
26).

There is one for each of the partition's `audiences`: asks for which nodes leave. A node that does not leave has more of
it than any ask needs. So "ends before the node leaves" stays "covers". Vectors have the amounts only while some node of
the partition leaves, or may by its calendar. They fall in steps as time passes: `Falls` says of which nodes, in
O(log n) for each step of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush

from ..limits import LEFTOVERS
from ..rules.leaving import ALWAYS_MS, lasting_ms, needed_by, needed_ms, shorter_from_ms
from ..rules.resource import Resource
from ..state import Node, PendingAsk


def with_need(resource: Resource, ask: PendingAsk, audiences: Iterable[str]) -> Resource:
    """The amounts that the ask needs of a node, and for how long one that leaves for these asks has to stay."""
    lasts_ms, path = needed_ms(ask.ask.tags, ask.ask.execution_timeout_ms), ask.application.queue.path
    return {**resource, **{audience: needed_by(audience, path, lasts_ms) for audience in audiences}}


class Falls:
    """When nodes of a partition are left with less time. `now_ms`: the time that the amounts are of."""

    __slots__ = ("_at", "_audiences", "_heap", "_nodes", "now_ms")

    def __init__(self, nodes: Mapping[str, Node], audiences: tuple[str, ...], now_ms: int) -> None:
        self.now_ms = now_ms
        self._audiences = audiences
        self._nodes = nodes
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}  # by node ID: the entry of the heap that counts

    def amounts(self, node: Node, now_ms: int) -> tuple[int, ...]:
        """The longest time that an allocation which starts on the node now may run, in ms, for each audience."""
        departures = node.departures
        return tuple(lasting_ms(departures.get(audience, ALWAYS_MS), now_ms) for audience in self._audiences)

    def follow(self, node: Node) -> None:
        """The node leaves at another time than before, or it may."""
        departures = node.departures.values()
        at_ms = min((shorter_from_ms(leaves_ms, self.now_ms) for leaves_ms in departures), default=ALWAYS_MS)
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
