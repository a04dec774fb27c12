"""The reference's rules of nodes in the place of ours, as those in `reference_rules`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from remuda_core import facts
from remuda_core.decide import node as decisions
from remuda_core.evolve import allocations
from remuda_core.facts import Allocated, Fact
from remuda_core.state import Allocation, Node, Partition, State


@contextmanager
def keep_reservations_of_draining_nodes() -> Iterator[None]:
    """A node that drains is kept, and takes the ask that it is kept for."""
    takes = Node.takes

    def drained(
        partition: Partition, node: Node, operator: str = "", reason: str = "", *, left: bool = False, running: int = 0
    ) -> Iterator[Fact]:
        yield facts.NodeDraining(partition.name, node.id, operator, reason, left, running)

    def takes_its_own(node: Node, bound_to: str) -> bool:
        return takes(node, bound_to) or (node.ready and node.reservation is not None and not bound_to)

    with patch.object(decisions, "drained", drained), patch.object(Node, "takes", takes_its_own):
        yield


@contextmanager
def leave_out_of_the_node_what_it_has_no_room_for() -> Iterator[None]:
    """A reported allocation that is larger than what is left of its node counts everywhere but there."""
    book = allocations.book_running

    def booked(state: State, allocation: Allocated, node: Node) -> Allocation:
        left = node.available()
        if all(amount <= left.get(name, 0) for name, amount in allocation.resource.items()):
            return book(state, allocation, node)
        aside = copy.copy(node)
        aside.allocations, aside.allocated = dict(node.allocations), copy.copy(node.allocated)
        return book(state, allocation, aside)

    with patch.object(allocations, "book_running", booked):
        yield
