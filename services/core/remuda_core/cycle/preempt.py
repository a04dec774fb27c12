"""Preemption (semantics sections 10 and 13): plan it, and attempt it. Asks that are bound to a node attempt it in their
turn, all other asks in the last step of a pass.

A plan is the node that an ask could have, and the victims that takes. It is a value: it changes nothing, and can be
confirmed or refused before it becomes facts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from operator import itemgetter

import msgspec

from remuda_proto.guests import name_for

from .. import facts
from ..costs import cost_together
from ..facts import Fact
from ..index.groups import Start
from ..index.limits import full_queue, held_queue, limit_of
from ..index.partition import PartitionIndex
from ..index.preemption import Preemptors, amounts_alike, group_label, preempts_in_turn
from ..limits import (
    ALLOCATIONS_PER_MS_OF_REST,
    ANSWER_WITHIN_MS,
    NODES_PER_PLAN,
    PREEMPTION_PUT_OFF_MS,
    PREEMPTION_WORK_PER_PASS,
    PREEMPTIONS_PER_PASS,
    PREEMPTIONS_PER_QUEUE,
    RELEASE_OVERDUE_MS,
)
from ..rules.devices import is_place, resource_of
from ..rules.leaving import ends_before
from ..rules.required_node import required_node
from ..rules.resource import Resource, show
from ..rules.share import dominant_share
from ..state import NEVER_MS, Allocation, Node, Partition, PendingAsk, Queue, State
from .place import release_requested
from .preempt_groups import GroupPlan, plan_for_group
from .reserve import gives_way, may_take, reserved, unreserved, within_quotas
from .victims import (
    QueueEligibility,
    Shortfall,
    VictimSearch,
    cheapness_by_priority,
    cost_of,
    queue_eligibility,
    shortfall_of,
)


def preempt(
    state: State, partition: Partition, index: PartitionIndex, preemptors: Preemptors, budget: int, now_ms: int
) -> Iterator[Fact]:
    """Preempt for at most `budget` asks that are not bound to a node.

    An attempt costs O(allocations of the partition). So the more allocations there are, the fewer attempts a pass
    makes, and the longer it rests after a refused one. If the pass has used up its budget, one ask may still preempt
    that has been due for PREEMPTION_PUT_OFF_MS and that fits no node: full passes must not prevent preemption for
    ever."""
    rest_ms = len(partition.allocations) // ALLOCATIONS_PER_MS_OF_REST
    if now_ms < partition.preemption_refused_ms + rest_ms:
        return
    attempts = min(PREEMPTIONS_PER_PASS, max(1, PREEMPTION_WORK_PER_PASS // (len(partition.allocations) + 1)))
    interval_ms = interval_of(state, partition)
    used_up, budget = budget <= 0, max(1, budget)
    for _ in range(attempts):
        pending = preemptors.next_ask(interval_ms, now_ms) if budget > 0 else None
        if pending is None:
            return
        if used_up and not is_put_off_for_long(index, preemptors, pending, interval_ms, now_ms):
            preemptors.pass_over()
        elif (yield from attempt(state, partition, index, pending, now_ms)):
            budget -= 1


def is_put_off_for_long(
    index: PartitionIndex, preemptors: Preemptors, pending: PendingAsk, interval_ms: int, now_ms: int
) -> bool:
    due_ms = preemptors.due_since(interval_ms, pending)
    if now_ms < due_ms + PREEMPTION_PUT_OFF_MS:
        return False
    if index.groups is not None and index.groups.wants(pending):
        return not index.groups.has_room_for(pending)
    return index.best_node(pending) is None


def preempt_where_bound(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Iterator[Fact]:
    """Preempt for asks that are bound to a node which is reserved for them. Needs no budget, as nothing is placed."""
    for pending in index.bound.preempting_where_reserved(interval_of(state, partition), now_ms):
        yield from attempt(state, partition, index, pending, now_ms)


def preempt_in_turn(
    state: State, partition: Partition, index: PartitionIndex, pending: PendingAsk, now_ms: int
) -> Iterator[Fact]:
    """Preempt for an ask whose turn it is, and that is bound to a node without room."""
    if preempts_in_turn(partition, index.bound, pending, interval_of(state, partition), now_ms):
        yield from attempt(state, partition, index, pending, now_ms)


def interval_of(state: State, partition: Partition) -> int:
    """The time between two attempts for an ask, or for asks of its group, in ms."""
    return partition.settings.preemption_interval_ms or state.timing.preemption_attempt_ms


def attempt(
    state: State, partition: Partition, index: PartitionIndex, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, bool]:
    """Plan preemption for the ask, and carry the plan out, or ask the RM first where it declares preemption predicates.
    Returns whether there is a plan."""
    found = plan(state, partition, pending, now_ms, index=index)
    if isinstance(found, str):
        yield refused(partition, pending, found)
        return False
    if state.preemption_predicates:
        yield ask_rm(state, found, now_ms)
    else:
        yield from carry_out(state, partition, found)
    return True


def ask_rm(state: State, found: Plan | GroupPlan, now_ms: int) -> Fact:
    """Ask the RM whether the ask would fit with all victims gone. A plan has no more victims than it needs. Of a group,
    it is asked about one member, and which victims it spares; about the others when they are placed."""
    members = found.members if isinstance(found, GroupPlan) else {}
    ask = (found.attempting if isinstance(found, GroupPlan) else found.pending).ask
    return facts.PreemptionAsked(
        *ask.name,
        found.node.id,
        found.uuids,
        tuple(victim.fact.allocation_key for victim in found.victims),
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
        tuple(member.ask.allocation_key for member in members),
        tuple(members.values()),
    )


def carry_out(state: State, partition: Partition, found: Plan | GroupPlan) -> Iterator[Fact]:
    """Ask the RM to release the victims, and reserve the node for the ask, or keep the nodes for the group. Victims
    count until the RM confirms their release (semantics section 15)."""
    ask, queue = found.pending.ask, found.pending.application.queue
    if isinstance(found, GroupPlan):
        yield facts.PreemptionStarted(
            *ask.name, found.nodes[0].id, queue.path, found.resource,
            found.uuids, tuple(node.id for node in found.nodes), found.domain,
            tuple(member.ask.allocation_key for member in found.members), tuple(found.members.values()),
        )  # fmt: skip
    else:
        yield facts.PreemptionStarted(*ask.name, found.node.id, queue.path, ask.resource, found.uuids)
    who = f"{ask.application_id}/{ask.allocation_key} in queue {queue.path}"
    for victim in found.victims:
        message = f"preempted for {name_for(victim.fact.application_id, ask.application_id, who)}"
        yield release_requested(victim, facts.PREEMPTED_BY_SCHEDULER, message)
    if isinstance(found, GroupPlan):
        return
    reserves = state.reservation_delay_ms < NEVER_MS or bool(required_node(ask.tags))
    if reserves and found.node.reservation is not found.pending:
        yield from keep(partition, found.pending, found.node)


def keep(partition: Partition, pending: PendingAsk, node: Node) -> Iterator[Fact]:
    """Reserve the node for the ask. An ask has at most one reservation for each pending repeat: if it has no free
    repeat, it gives up another reservation."""
    if node.reservation is not None:
        yield unreserved(node, gives_way(node.reservation, pending))
    if not pending.free:
        yield unreserved(partition.nodes[next(iter(pending.reservations))], f"{node.id} is kept instead")
    yield reserved(pending, node, by_preemption=not within_quotas(partition, pending))


def refused(partition: Partition, pending: PendingAsk, reason: str) -> Fact:
    ask = pending.ask
    return facts.PreemptionRefused(
        *ask.name,
        pending.application.queue.path,
        amounts_alike(partition, pending),
        required_node(ask.tags),
        ask.priority,
        str(reason),
        isinstance(reason, SetAside),
        group_label(pending),
    )


class Plan(msgspec.Struct, frozen=True):
    """A node and victims. Without the victims, the cheapest first, the ask fits the node and its queues."""

    pending: PendingAsk
    node: Node
    victims: tuple[Allocation, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(victim.fact.uuid for victim in self.victims)


class SetAside(str):
    """A reason that ends when a node is no longer set aside for another ask."""

    __slots__ = ()


def some_node_is_set_aside(partition: Partition, pending: PendingAsk) -> bool:
    """Whether a node is reserved for another ask, or another ask preempts there."""
    return any(preemption.pending is not pending for preemption in partition.preemptions.values()) or any(
        node.reservation not in (None, pending) or node.kept is not None for node in partition.nodes.values()
    )


def obstacle(
    state: State, partition: Partition, pending: PendingAsk, now_ms: int, index: PartitionIndex | None = None
) -> str:
    """The reason why nothing can be preempted for the ask now; empty if something can."""
    found = plan(state, partition, pending, now_ms, index=index)
    return found if isinstance(found, str) else ""


def plan(
    state: State, partition: Partition, pending: PendingAsk, now_ms: int, refused: frozenset[str] = frozenset(),
    index: PartitionIndex | None = None,
) -> Plan | GroupPlan | str:  # fmt: skip
    """The plan for the ask, or for its group, or the reason why there is none. `refused`: IDs of nodes to leave out.
    `index`: that of the partition, which knows the group. Does not check whether it is the ask's turn. O(nodes +
    allocations)."""
    if pending.preemption is not None:
        return "preemption for it is under way"
    bound = bool(required_node(pending.ask.tags))
    if not (bound or partition.settings.preemption_enabled):
        return "preemption is not enabled"
    start: Start | None = None
    if index is not None and index.groups is not None and index.groups.wants(pending) and not bound:
        next_step = index.groups.start_of(pending)
        if isinstance(next_step, str):
            return next_step
        if any(one.preemption is not None for one in next_step.asks):
            return "preemption for a member that starts with it is under way"
        start = next_step
    need = pending.ask.resource if start is None else start.resource
    limit = limit_of(pending, need, None if start is None else cost_together(start.asks))
    if limit is not None:
        return f"{limit} has no room for it" if held_queue(pending.application.queue) is None else f"{limit} is held"
    if bound:
        return plan_on_required_node(partition, pending, now_ms)
    if not pending.ask.allow_preempt_other:
        return "it does not allow itself to preempt others"
    load = dominant_share(partition.root.allocated, partition.total) * 100
    if load < partition.settings.preemption_threshold:
        return f"the cluster is at {load:.0f}% of its capacity, below {partition.settings.preemption_threshold}%"
    queue = pending.application.queue
    claims = under_preemption(partition, queue)
    if len(claims) >= PREEMPTIONS_PER_QUEUE:
        return SetAside(f"queue {queue.path} has {len(claims)} preemptions under way")
    over = queue_shortfalls(partition, pending, need)
    if isinstance(over, str):
        return over
    compatible = state.configuration is not None and state.configuration.compatibility == "yunikorn-1.4"
    eligibility = queue_eligibility(pending, need, guaranteed_only=compatible)
    if not eligibility:
        return "no queue inside its preemption fence has more than its guaranteed of what it needs"
    search = VictimSearch(pending, eligibility, over, now_ms)
    if start is not None and index is not None:
        return plan_for_group(index, start, search)
    best = best_node(partition, pending, search, refused)
    if best is None:
        reason = "would have room for it, whatever may be preempted"
        if some_node_is_set_aside(partition, pending):
            return SetAside(f"no node that is not set aside for another ask {reason}")
        return f"no node {reason}"
    node, victims = best
    if not victims:
        return "it needs no preemption: there is room, or there will be when releases under way are confirmed"
    return Plan(pending, node, victims)


def under_preemption(partition: Partition, queue: Queue) -> list[PendingAsk]:
    """The asks of a leaf queue for which preemption is under way."""
    return [p.pending for p in partition.preemptions.values() if p.pending.application.queue is queue]


def queue_shortfalls(partition: Partition, pending: PendingAsk, wanted: Resource) -> dict[int, Shortfall] | str:
    """The resources that victims have to free in each queue of the ask's path, so that no queue exceeds its maximum or
    its guaranteed with so much more allocated: place in `path_to_root` -> amounts. Or why that is impossible.
    Allocations that are being preempted count as released, and the asks they are preempted for as allocated."""
    own = pending.application.queue
    need = [(name, amount) for name, amount in wanted.items() if amount]
    claimed: list[dict[str, int]] = [{} for _ in own.path_to_root]
    for preemption in partition.preemptions.values():
        path_to_root = preemption.pending.application.queue.path_to_root
        for place, queue in enumerate(own.path_to_root):
            if queue in path_to_root:
                for name, amount in preemption.resource.items():
                    claimed[place][name] = claimed[place].get(name, 0) + amount
    over: dict[int, Shortfall] = {}
    guaranteed_by = None
    for place, queue in enumerate(own.path_to_root):
        guaranteed, maximum = queue.settings.guaranteed, queue.settings.max
        for name, amount in need:
            used = queue.allocated.get(name, 0) - queue.preempting.get(name, 0) + claimed[place].get(name, 0) + amount
            for bounds, what in ((guaranteed, "guaranteed"), (maximum, "maximum")):
                bound = bounds.get(name)
                if bound is None:
                    continue
                if bounds is guaranteed:
                    guaranteed_by = queue
                if used > bound:
                    if queue is own:
                        return f"queue {own.path} would have {name}={used}, its {what} is {bound}"
                    short = over.setdefault(place, {})
                    short[name] = max(short.get(name, 0), used - bound)
    if guaranteed_by is None:
        return f"nothing of {show(wanted)} is guaranteed to queue {own.path}"
    return over


def best_node(
    partition: Partition, pending: PendingAsk, search: VictimSearch, refused: frozenset[str]
) -> tuple[Node, tuple[Allocation, ...]] | None:
    """The best node for the ask, and its victims; None if no node will do.

    Nodes rank by: no victim opted out of preemption; no victim is the originator of its application; fewest victims;
    none of a group that runs complete; node ID. Nodes that lack least are tried first, and NODES_PER_PLAN possible
    nodes are enough."""
    need = pending.ask.resource
    others = {p.node for p in partition.preemptions.values() if p.pending is not pending}

    def stays(node: Node) -> bool:
        """Says whether the node stays until the bound of the ask, also if the victims take as long to leave as they
        may."""
        ask, at_ms = pending.ask, search.now_ms + RELEASE_OVERDUE_MS
        return ends_before(ask.tags, ask.execution_timeout_ms, node.leaves_for(pending), at_ms)

    nodes: list[tuple[float, str, Node, Shortfall]] = []
    for node_id, node in partition.nodes.items():
        if not node.schedulable or node in others or not may_take(pending, node):
            continue
        if node_id in refused or node_id in pending.refused or not stays(node):
            continue
        shortfall = shortfall_of(pending, node)
        if shortfall is not None and (shortfall or not node.full):
            lacking = sum(short / (need.get(resource_of(name)) or 1) for name, short in shortfall.items())
            nodes.append((lacking, node_id, node, shortfall))
    nodes.sort(key=itemgetter(0, 1))
    worked_out = 0
    best: tuple[tuple[object, ...], Node, tuple[Allocation, ...]] | None = None
    for _, node_id, node, shortfall in nodes:
        if worked_out >= NODES_PER_PLAN:
            break
        candidates = search.on(node) if shortfall else []
        least = least_victims(shortfall, candidates)
        if least is None:
            continue
        worked_out += 1
        if best is not None and best[0] <= (False, False, least, False, node_id):
            continue
        victims = search.choose(node, shortfall, candidates)
        if victims is not None:
            rank = (*cost_of(victims), node_id)
            if best is None or rank < best[0]:
                best = (rank, node, tuple(victims))
    return None if best is None else best[1:]


def least_victims(shortfall: Shortfall, candidates: list[Allocation]) -> int | None:
    """A lower bound of the number of victims; None if all candidates together are not enough."""
    least = 0
    for name, short in shortfall.items():
        if is_place(name):
            least = max(least, 1)
            continue
        amounts = [candidate.fact.resource.get(name, 0) for candidate in candidates]
        if sum(amounts) < short:
            return None
        least = max(least, -(-short // max(amounts)))
    return least


# An ask that is bound to a node


def plan_on_required_node(partition: Partition, pending: PendingAsk, now_ms: int) -> Plan | str:
    """The plan for an ask that is bound to a node. Any allocation there that has no higher priority may be a victim, of
    any queue, and even if preemption is not enabled: the ask cannot run elsewhere."""
    node = partition.nodes.get(required_node(pending.ask.tags))
    if node is None or not node.ready:
        return "its required node does not exist or is not ready"
    if node.reservation not in (None, pending) and required_node(node.reservation.ask.tags):
        return f"node {node.id} is reserved for another ask that has to be there"
    full = full_queue(pending)
    if full is not None:
        return f"queue {full.path} is at its maximum"
    if node.kept is not None:
        return f"node {node.id} is kept for {node.kept.pending.ask.application_id}, for which others are preempted"
    if node.id in pending.refused:
        return f"the RM refuses {pending.refusal}"
    shortfall = shortfall_of(pending, node)
    if shortfall is None:
        return f"node {node.id} is too small for it"
    if not shortfall and node.full:
        return f"node {node.id} has the most allocations allowed on one node"
    if not shortfall:
        return "it needs no preemption: there is room on its required node"
    everyone: Mapping[Queue, QueueEligibility] = {
        allocation.application.queue: QueueEligibility(pending.ask.priority, (), 0)
        for allocation in node.allocations.values()
    }
    search = VictimSearch(pending, everyone, {}, now_ms, cheapness_by_priority)
    victims = search.choose(node, shortfall, search.on(node))
    if victims is None:
        return f"too little of what runs on {node.id} may be preempted: what is bound to it or of higher priority stays"
    return Plan(pending, node, tuple(victims))
