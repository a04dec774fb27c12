"""Reports why asks wait (semantics section 17): a bounded number in a tick."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_proto.constants import NO_NODE_FITS

from .. import facts
from ..explain.nodes import QUESTION, node_constraints
from ..explain.standing import pieces_allowed, standing_constraints
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


def explain(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Iterator[Fact]:
    """Yield AskWaiting for asks whose constraints differ from those last explained, each at most once per
    EXPLAIN_AGAIN_MS (semantics section 17). One ask stands for all equal asks of its application."""
    unreported = OUTSTANDING_PER_TICK
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
        constraints = standing_constraints(state, ask, index)
        if not demand.open and not constraints and (known or line.reported) and unreported > 0:
            for found in outstanding(line, ask, unreported):
                unreported -= 1
                yield found
        of_nodes = {key for key in known if key[0] in NO_NODE_FITS}
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
                of_nodes_now = node_constraints(partition, ask, index, now_ms)
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
            *ask.ask.name, first.constraint, first.reason, line.count(), ask.ask.resource, tuple(constraints)
        )


def outstanding(line: ApplicationAsks, head: PendingAsk, most: int) -> Iterator[Fact]:
    """Yield AskOutstanding for asks equal to `head` that no node fits, as many as quotas allow: an autoscaler learns
    how many nodes to add."""
    allowed = pieces_allowed(head)
    looks = OUTSTANDING_LOOKS if allowed is None else min(allowed, OUTSTANDING_LOOKS)
    for ask in line.unannounced(looks, most):
        yield facts.AskOutstanding(*ask.ask.name, "no node has room for it")
