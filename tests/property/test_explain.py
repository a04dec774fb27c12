"""Explanations of asks that wait, compared with a plain implementation of the semantics."""

from __future__ import annotations

import pytest

from remuda_core.core import Core
from remuda_core.explain import Explanations, Positions
from remuda_core.rules.connection import RUNNING
from remuda_core.rules.required_node import is_protected, required_node
from remuda_core.rules.resource import total_of
from remuda_core.state import Node, Partition, PendingAsk

from . import oracle
from .storm import Storm

# No queue of these storms remembers, so its order does not depend on the time.
NOW_MS = 0


@pytest.mark.parametrize("seed", range(30))
def test_of_every_ask_that_waits(seed: int) -> None:
    storm = Storm(seed)
    for number, _ in enumerate(storm.run(150)):
        if number % 10 == 0:
            for partition in storm.world.state.partitions.values():
                check_positions(storm.world.core, partition)
                check_constraints(storm.world.core, partition)


def check_positions(core: Core, partition: Partition) -> None:
    if core.index.find(partition) is None:
        return
    positions = Positions(core.index)
    for queue in partition.queues.values():
        if queue.leaf:
            ahead = 0
            for ask in oracle.in_order(partition, queue, NOW_MS):
                assert positions.of(ask).ahead == ahead
                ahead += ask.pending
            for ask in oracle.pending(queue):
                assert positions.of(ask).waiting == ahead
                for turn in positions.of(ask).turns:
                    assert (turn.place, turn.among) == turn_of(partition, turn.queue)


def turn_of(partition: Partition, path: str) -> tuple[int, int]:
    parent = partition.queues[path].parent
    assert parent is not None
    asking = [child for child in parent.children.values() if any(oracle.pending(child))]
    in_order = sorted(asking, key=lambda child: oracle.queue_rank(partition, parent, child, NOW_MS))
    return [child.path for child in in_order].index(path) + 1, len(in_order)


def check_constraints(core: Core, partition: Partition) -> None:
    """Nothing is in the way of an ask exactly when its application may run, and it fits every limit, every maximum and
    some node. A real ask of a gang waits for a place, and for nothing else."""
    explanations = Explanations(core.state, core.index)
    for ask in oracle.pending(partition.root):
        found = explanations.of(partition, ask)
        if core.state.rm_state != RUNNING:
            assert found.pop(0).constraint == "rm"
        held = [queue.path for queue in ask.application.queue.path_to_root if queue.hold is not None]
        assert [c.where for c in found if c.constraint == "held"] == held
        if oracle.awaits_place(ask):
            assert [c.constraint for c in found if c.constraint != "held"] == ["placeholder"]
            continue
        check_too_large(partition, ask, [constraint.constraint for constraint in found])
        some_node = oracle.best_nodes(partition, ask) or oracle.reserved_nodes(partition, ask)
        may_run = oracle.has_its_turn(ask.application) and oracle.may_run(ask)
        fits = oracle.fits_limits(ask) and oracle.fits_maxima(ask) and some_node
        assert bool(may_run and fits and not held) == (not found), f"{ask.ask}: {found}"


def check_too_large(partition: Partition, ask: PendingAsk, kinds: list[str]) -> None:
    """An ask is too large exactly when no node could take it that held nothing but what is bound to it."""
    if "question" in kinds:
        return
    bound_to = required_node(ask.ask.tags)
    nodes = [node for node in partition.nodes.values() if bound_to in ("", node.id)]
    if not nodes or (bound_to and not nodes[0].ready):
        assert "too_large" not in kinds
        return
    assert ("too_large" in kinds) == (not any(could_take(node, ask) for node in nodes)), f"{ask.ask}: {kinds}"


def could_take(node: Node, ask: PendingAsk) -> bool:
    stays = [node.occupied, *(a.fact.resource for a in node.allocations.values() if is_protected(a.fact.tags))]
    taken = total_of([*stays, ask.ask.resource])
    return all(amount <= node.capacity.get(name, 0) for name, amount in taken.items())
