"""Tick: explains waiting asks whose constraints have changed (semantics section 17). Its work is bounded."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..explain.constraints import (
    OF_NODES,
    QUESTION,
    node_constraints,
    pieces_allowed,
    room_constraints,
    standing_constraints,
)
from ..facts import Constraint, Fact
from ..index.asks import ApplicationAsks
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..limits import (
    EXPLAIN_AFTER_MS,
    EXPLAIN_AGAIN_MS,
    EXPLAIN_AMOUNTS_PER_TICK,
    EXPLAIN_NODES_PER_TICK,
    EXPLAINED_PER_TICK,
    OUTSTANDING_LOOKS,
    OUTSTANDING_PER_TICK,
)
from ..state import Partition, PendingAsk, State


def explanations(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Iterator[Fact]:
    """AskWaiting for asks whose constraints differ from those last explained, each at most once per EXPLAIN_AGAIN_MS
    (semantics section 17). One ask stands for all equal asks of its application."""
    unreported, full = OUTSTANDING_PER_TICK, room_constraints(state)
    # Node constraints by demand: equal for all asks of a demand except those with reserved nodes.
    looked: dict[Demand | PendingAsk, list[Constraint]] = {}
    amounts = len(partition.nodes) * len(index.names)
    looks = max(1, min(EXPLAIN_NODES_PER_TICK, EXPLAIN_AMOUNTS_PER_TICK // max(1, amounts)))
    for line in index.next_to_explain(EXPLAINED_PER_TICK):
        ask = line.first_ask()
        if ask is None:
            continue
        if now_ms - ask.at_ms < EXPLAIN_AFTER_MS:
            continue
        demand, known = line.ask_class.demand, set(ask.waiting or ())
        constraints = [*full, *standing_constraints(ask, index)]
        if not demand.open and not constraints and (known or line.reported) and unreported > 0:
            for found in outstanding(partition, line, ask, unreported):
                unreported -= 1
                yield found
        of_nodes = {key for key in known if key[0] in OF_NODES}
        if (
            not demand.required_node
            and demand.open == (not of_nodes)
            and {c.key for c in constraints} | of_nodes == known
        ):
            continue  # as it was
        if not demand.open:
            like = ask if ask.reservations else demand
            of_nodes_now = looked.get(like)
            if of_nodes_now is None:
                if len(looked) >= looks and not demand.required_node:
                    continue  # in another tick
                of_nodes_now = node_constraints(partition, ask, index)
                if not demand.required_node:
                    looked[like] = of_nodes_now
            # An open question is answered within seconds, and the answer is the reason to report.
            constraints += (one for one in of_nodes_now if one.constraint != QUESTION)
        if not constraints or {c.key for c in constraints} == known:
            continue
        first = constraints[0]
        if now_ms - line.reported.get(first.key, now_ms - EXPLAIN_AGAIN_MS) < EXPLAIN_AGAIN_MS:
            continue
        yield facts.AskWaiting(
            partition.name, ask.application.id, ask.ask.allocation_key, first.constraint, first.reason, line.count(),
            ask.ask.resource, tuple(constraints),
        )  # fmt: skip


def outstanding(partition: Partition, line: ApplicationAsks, head: PendingAsk, most: int) -> Iterator[Fact]:
    """AskOutstanding for asks equal to `head` that no node fits, as many as quotas allow: an autoscaler learns how many
    nodes to add."""
    allowed = pieces_allowed(head)
    looks = OUTSTANDING_LOOKS if allowed is None else min(allowed, OUTSTANDING_LOOKS)
    for ask in line.unannounced(looks, most):
        yield facts.AskOutstanding(
            partition.name, ask.application.id, ask.ask.allocation_key, "no node has room for it"
        )
