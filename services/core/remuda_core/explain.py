"""Why an ask waits: what is in its way, who holds that, and how many come before it (semantics sections 9 and 17).

`Explanations` has the constraints of several waiting asks of one state, `holders_of` the applications that hold what a
constraint is about, `Positions` the place of an ask in the scheduling order. All is computed from the state on request.
A constraint is of one of these kinds:

    rm                  the RM is not Running
    held                an operator holds a queue on the path to root
    allocations         the RM has its maximum of allocations
    placeholder         it waits for a placeholder to replace, and none is free
    stateaware          another application of the queue starts first
    maxapplications     a queue on the path to root, the user or the group has its maximum of running applications
    user, group         the user or group is at its limit in a queue on the path to root
    queue               a queue on the path to root is at its maximum
    budget              a queue on the path to root has too little left of its budget in this period
    too_large           it can never run on the nodes there are, whatever leaves them
    node                no node has room, or the node that it is bound to has none
    device              the closest node has room in all, but not on as many of its devices as the ask wants
    domain, slice       no domain has room for all members of its group that start together, or for one more
    avoided             others avoid a domain for its group, or its group avoids one (which alone blocks no ask)
    level               it names a level of the topology that is not configured any more
    unknown_node        the node it is bound to does not exist
    unschedulable_node  the node it is bound to is not ready, or the only nodes that are large enough accept no asks
    leaving             nodes have room, but leave before the ask would end
    window              nodes have room, but a window begins before the ask would end, or the nodes are drained by one
    full_node           nodes have room, but have their maximum of allocations
    predicate           nodes have room, but the RM refuses them
    reserved            nodes have room, but are reserved for other asks
    question            a question to the RM is open
    preemption          its victims are not released yet, or preemption finds no plan (which alone blocks no ask)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from remuda_operations.queries.rows import Holder, Holders, Position, Turn
from remuda_proto.guests import name_for

from .costs import cost_of_ask, cost_together
from .cycle.devices import needs_on
from .cycle.preempt import obstacle
from .evolve.booking import sum_pending
from .explain_topology import topology_constraints
from .facts import Ask, Constraint
from .index.asks import ApplicationAsks
from .index.devices import obtainable_on_devices
from .index.index import Index
from .index.leaves import LeafOrder
from .index.limits import NOTHING_HELD
from .index.partition import PartitionIndex
from .index.preemption import alike, group_label
from .limits import ALLOCATIONS_PER_NODE, ALLOCATIONS_PER_RM, HOLDERS_LOOKED, HOLDERS_SHOWN
from .rules import lifecycle
from .rules.budget import HOUR_MS, NO_COST, Cost, hours, utc
from .rules.connection import RUNNING
from .rules.devices import DeviceNeed
from .rules.leaving import ALWAYS_MS, ends_before
from .rules.properties import is_state_aware
from .rules.required_node import required_node
from .rules.resource import Resource, show, total_of
from .settings import Window
from .state import (
    Application,
    Budget,
    Hold,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    Queue,
    State,
    Tracker,
    asked_together,
    to_give_back,
)


class Explanations:
    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index
        self._standing: dict[ApplicationAsks, list[Constraint]] = {}
        self._nodes: dict[object, list[Constraint]] = {}
        self._preemption: dict[object, list[Constraint]] = {}
        self._holders: dict[tuple[Application, Constraint], Holders] = {}
        # How often nodes or victims were searched, which determines the duration.
        self.looks = 0

    def of(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        """The constraints of the ask. Empty: it waits only for its turn."""
        found = self._of_its_own(partition, ask)
        rm_state = self._state.rm_state
        return found if rm_state == RUNNING else [Constraint("rm", "", f"the resource manager is {rm_state}"), *found]

    def holders(self, partition: Partition, ask: PendingAsk, constraint: Constraint) -> Holders:
        """Who holds what the constraint is about. All asks of an application have the same answer."""
        like = ask.application, constraint
        found = self._holders.get(like)
        if found is None:
            found = self._holders[like] = holders_of(partition, ask, constraint)
            self.looks += 1
        return found

    def _of_its_own(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        if not ask.pending:
            return [Constraint(QUESTION, "", "the RM is asked whether it may run where there is room for it")]
        if waits := place_constraints(ask):
            return [*hold_constraints(ask.application.queue), *waits]
        # An ask with reserved nodes has more nodes to choose from than others of its demand.
        index = self._index.find(partition)
        line = index.lines.get(ask) if index is not None else None
        asks = line if isinstance(line, ApplicationAsks) else None
        like = ask if asks is None or ask.reservations else asks.ask_class.demand
        nodes = self._nodes.get(like)
        if nodes is None:
            nodes = self._nodes[like] = node_constraints(partition, ask, index, self._state.now_ms)
            self.looks += 1
        found = [*self._standing_of(ask, asks, index), *nodes]
        return [*found, *self._of_preemption(partition, ask, index)] if found else found

    def _standing_of(
        self, ask: PendingAsk, asks: ApplicationAsks | None, index: PartitionIndex | None
    ) -> list[Constraint]:
        """`asks`: of the same application, and like it."""
        if asks is None or ask.has_place:
            return [*room_constraints(self._state), *standing_constraints(ask, index)]
        found = self._standing.get(asks)
        if found is None:
            found = [*room_constraints(self._state), *standing_constraints(ask, index)]
            self._standing[asks] = found
        return found

    def _of_preemption(self, partition: Partition, ask: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
        wants = ask.ask
        bound_to = required_node(wants.tags)
        if ask.preemption is not None or not (wants.allow_preempt_other or bound_to):
            return preemption_constraints(self._state, partition, ask)
        queue, resource = ask.application.queue, alike(partition, ask)
        like = queue, resource, bound_to, wants.priority, wants.allow_preempt_other, group_label(ask)
        found = self._preemption.get(like)
        if found is None:
            found = self._preemption[like] = preemption_constraints(self._state, partition, ask, index)
            self.looks += bool(found)
        return found


QUESTION: Final = "question"


def standing_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """All constraints except nodes, in the order in which a pass checks them. Costs little, whatever the size of the
    state."""
    return [
        *hold_constraints(pending.application.queue),
        *turn_constraints(pending, index),
        *slot_constraints(pending),
        *limit_constraints(pending, wanted := _wanted(pending, index)),
        *queue_constraints(pending, wanted),
        *budget_constraints(pending, index),
    ]


def _wanted(pending: PendingAsk, index: PartitionIndex | None) -> Resource:
    """What is placed with the ask: of a group all that starts together."""
    together = _together(pending, index)
    return pending.ask.resource if together is None else asked_together(together)


def _together(pending: PendingAsk, index: PartitionIndex | None) -> dict[PendingAsk, int] | None:
    """How many repeats of which asks start together with the ask; None: it starts by itself."""
    groups = index.groups if index is not None else None
    return groups.placed_with(pending) if groups is not None else None


def hold_constraints(queue: Queue) -> list[Constraint]:
    """Operators hold these queues: nothing starts in them and below."""
    return [
        Constraint("held", above.path, f"queue {above.path} is held by {above.hold.operator}{because(above.hold)}")
        for above in queue.path_to_root
        if above.hold is not None
    ]


def because(hold: Hold) -> str:
    return f": {hold.reason}" if hold.reason else ""


def room_constraints(state: State) -> list[Constraint]:
    """The RM has reached ALLOCATIONS_PER_RM."""
    if state.room > 0:
        return []
    reason = f"the resource manager has {state.allocations} allocations, at most {ALLOCATIONS_PER_RM}"
    return [Constraint("allocations", "", reason)]


def place_constraints(pending: PendingAsk) -> list[Constraint]:
    """A real ask of a gang waits for a placeholder, and for nothing else."""
    ask, application = pending.ask, pending.application
    group = application.task_groups.get(ask.task_group)
    if ask.placeholder or group is None or not group.awaited:
        return []
    reason = (
        f"it is to take the place of a placeholder of task group {group.name}: "
        f"{len(group.free)} can be taken, {group.leaving} are being taken, {group.coming} are not there yet"
    )
    return [Constraint("placeholder", application.id, reason)]


def turn_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """In a stateaware leaf queue applications start one after the other."""
    application = pending.application
    queue = application.queue
    if application.state != lifecycle.ACCEPTED or not is_state_aware(queue.settings.properties):
        return []
    first = first_to_start(queue, index)
    if first is None or first is application:
        return []
    who = name_for(application.id, first.id, first.id)
    reason = f"queue {queue.path} starts one application after the other: {who} is {first.state}"
    return [Constraint("stateaware", queue.path, reason)]


def first_to_start(queue: Queue, index: PartitionIndex | None) -> Application | None:
    """The application whose turn it is in a stateaware leaf queue. Taken from the index if there is one."""
    leaf = index.order_of(queue) if index is not None else None
    if isinstance(leaf, LeafOrder) and leaf.stateaware_turn is not None:
        return leaf.stateaware_turn.first()
    starting = [a for a in queue.applications.values() if a.state == lifecycle.STARTING]
    accepted = [a for a in queue.applications.values() if a.state == lifecycle.ACCEPTED and a.asks]
    return min(starting or accepted, key=lambda a: a.seq, default=None)


def slot_constraints(pending: PendingAsk) -> list[Constraint]:
    application = pending.application
    if application.counts_as_running:
        return []
    full = [limit for limit in application.application_limits if not limit.has_running_slot()]
    found = []
    for limit in full:
        reason = f"{limit} is at its maximum of running applications: {limit.running} of {limit.most_running}"
        found.append(Constraint("maxapplications", limit.path if isinstance(limit, Queue) else limit.name, reason))
    return found


def _holds_a_place(pending: PendingAsk) -> bool:
    """Whether a preemption for it, or for its group, holds its place under maxima and limits."""
    return pending.preemption is not None and pending.preemption.held


def limit_constraints(pending: PendingAsk, wanted: Resource) -> list[Constraint]:
    found = []
    for tracker in pending.application.trackers:
        what = f"{tracker.kind} {tracker.name} is at the limit in queue {tracker.queue.path}"
        found += _short(tracker, tracker.kind, tracker.name, what, pending, wanted)
    return found


def pieces_allowed(pending: PendingAsk) -> int | None:
    """How many allocations of the ask fit under maxima, limits and budgets; None: unlimited."""
    limits = [(one.most, total_of((one.used, one.held))) for one in pending.application.quotas]
    need = {name: amount for name, amount in pending.ask.resource.items() if amount > 0}
    pieces = [
        (most[name] - used.get(name, 0)) // need[name] for most, used in limits for name in need.keys() & most.keys()
    ]
    budgets = pending.application.queue.budgets
    cost = cost_of_ask(pending) if budgets else NO_COST
    pieces += [
        budget.left_of(name, budget.held) // needed
        for budget in budgets
        for name, needed in cost.items()
        if name in budget.amounts
    ]
    return max(0, min(pieces)) if pieces else None


def queue_constraints(pending: PendingAsk, wanted: Resource) -> list[Constraint]:
    found = []
    for queue in pending.application.queue.path_to_root:
        what = f"queue {queue.path} is at its maximum"
        if to_give_back(queue):
            what = f"queue {queue.path} is above its maximum, and will be preempted"
        found += _short(queue, "queue", queue.path, what, pending, wanted)
    return found


def budget_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """In base units * hours: what is needed is rounded up, what is left rounded down."""
    budgets = pending.application.queue.budgets
    if not budgets:
        return []
    together = _together(pending, index)
    cost = cost_of_ask(pending) if together is None else cost_together(together)
    return [found for budget in budgets for found in _over_budget(budget, pending, cost)]


def _over_budget(budget: Budget, pending: PendingAsk, cost: Cost) -> Iterator[Constraint]:
    held = NOTHING_HELD if _holds_a_place(pending) else budget.held
    for name in sorted(cost.keys() & budget.amounts.keys()):
        need, whole, left = cost[name], budget.amounts[name], budget.left_of(name, held)
        if need <= left:
            continue
        needed, have = -(-need // HOUR_MS), max(0, left) // HOUR_MS
        used, committed = hours(budget.used_of(name)), hours(budget.committed_of(name))
        what = f"{name} needs {hours(need)} h"
        if need > whole:
            what += f", which is more than the {hours(whole)} h of a period"
        else:
            what += f", {hours(max(0, left))} h of {hours(whole)} h are left until {utc(budget.until_ms)} "
            what += f"({used} h are used, and running work may use {committed} h)"
        yield Constraint("budget", budget.path, f"queue {budget.path} is at its budget: {what}", name, needed, have)


def _short(
    quota: Queue | Tracker, kind: str, where: str, what: str, pending: PendingAsk, wanted: Resource
) -> list[Constraint]:
    """A constraint for each resource that is short."""
    found = []
    held = NOTHING_HELD if _holds_a_place(pending) else quota.held
    for name, maximum in sorted(quota.most.items()):
        kept = held.get(name, 0)
        need, have = wanted.get(name, 0), maximum - quota.used.get(name, 0) - kept
        if need > have:
            reason = f"{what}: {name} needs {need}, {max(have, 0)} of {maximum} are left"
            if kept:
                reason += f", {kept} are kept for asks for which others are preempted"
            found.append(Constraint(kind, where, reason, name, need, have))
    return found


def node_constraints(
    partition: Partition, pending: PendingAsk, index: PartitionIndex | None, now_ms: int
) -> list[Constraint]:
    """Constraints by nodes. Empty if some node fits."""
    asked = pending.refused
    if isinstance(asked, PredicateClass) and asked.question:
        count = len(asked.asked)
        return [Constraint(QUESTION, "", f"the RM is asked about {count} node{'s' if count != 1 else ''}")]
    bound_to = required_node(pending.ask.tags)
    if domains := topology_constraints(pending, index):
        return domains
    if bound_to:
        node = partition.nodes.get(bound_to)
        if node is None:
            return [Constraint("unknown_node", bound_to, f"the required node {bound_to} does not exist")]
        if not node.ready:
            return [Constraint("unschedulable_node", bound_to, f"the required node {bound_to} is not ready")]
        if never_fits(pending.ask, node):
            return [_too_large(pending.ask, node, required=True)]
        if node.full:
            return full_nodes([node])
        others = [node] if node.reservation is not None and node.reservation is not pending else []
        nodes = [] if others or bound_to in pending.refused else [node]
    else:
        others = [n for n in partition.nodes.values() if n.reservation not in (None, pending) and n.schedulable]
        nodes = candidates(partition, pending, index)
        others = [node for node in others if not never_fits(pending.ask, node)]
        nodes = [node for node in nodes if not never_fits(pending.ask, node)]
        if not nodes and partition.nodes:
            large_enough = [node for node in partition.nodes.values() if not never_fits(pending.ask, node)]
            if not any(node.schedulable for node in large_enough):
                return [_no_large_node(partition, pending.ask, large_enough)]
            unreserved = (n for n in large_enough if n.schedulable and n.reservation in (None, pending))
            nodes = [node for node in unreserved if missing(pending.ask, node)]
    nodes, leaving = _without_leaving(partition, pending, nodes, now_ms)
    closest = min(((missing(pending.ask, node), node.id, node) for node in nodes), default=None)
    if closest is not None and not closest[0]:
        if isinstance(asked, PredicateClass) and not asked.accepted and partition.questions_paused:
            return [Constraint(QUESTION, "", f"the RM has to answer {len(partition.class_questions)} others first")]
        return []
    with_room = [node for node in others if not missing(pending.ask, node)]
    full = [] if bound_to else [n for n in partition.nodes.values() if n.full and n.schedulable]
    full = [n for n in full if n.reservation in (None, pending) and not missing(pending.ask, n)]
    found = [*leaving, *refusals(partition, pending), *kept_for_others(pending, with_room), *full_nodes(full)]
    if closest is not None:
        found.append(_lack(pending.ask, closest[2], bound=bool(bound_to)))
    return found or kept_for_others(pending, others) or [Constraint("node", "", "there is no schedulable node")]


def _without_leaving(
    partition: Partition, pending: PendingAsk, nodes: list[Node], now_ms: int
) -> tuple[list[Node], list[Constraint]]:
    """The nodes that stay until the bound of the ask, and the constraint by others, which have room. If there are none
    of either kind: all, none of which has room."""
    if not partition.leaving:
        return nodes, []
    tags, bound_ms = pending.ask.tags, pending.ask.execution_timeout_ms
    leave_ms = {node.id: node.leaves_for(pending) for node in nodes}
    staying = [node for node in nodes if ends_before(tags, bound_ms, leave_ms[node.id], now_ms)]
    stay = {node.id for node in staying}
    others = [node for node in nodes if node.id not in stay and not missing(pending.ask, node)]
    if not others:
        return staying or nodes, []
    last = max(others, key=lambda node: (leave_ms[node.id], node.id))
    which = f"node {last.id} has" if len(others) == 1 else f"{len(others)} nodes, such as {last.id}, have"
    bound = f"its bound is {bound_ms / 1_000:.10g} s" if bound_ms > 0 else "it has no bound"
    window = leaves_in(partition, last, pending)
    if window is None:
        leave = "leaves" if len(others) == 1 else "leave"
        return staying, [Constraint("leaving", last.id, f"{which} room, but {leave} before the ask would end: {bound}")]
    what = f"window {window.name} begins before the ask would end"
    if window.queue:
        what = f"window {window.name} keeps {'it' if len(others) == 1 else 'them'} for {window.queue}"
    return staying, [Constraint("window", window.name, f"{which} room, but {what}: {bound}")]


def leaves_in(partition: Partition, node: Node, pending: PendingAsk) -> Window | None:
    """The window at whose begin the node leaves for the ask. None: it leaves for another reason."""
    leaves_ms = node.leaves_for(pending)
    if leaves_ms >= min(node.leaves_ms, ALWAYS_MS):
        return None
    for window in partition.settings.calendar:
        known = partition.windows.get(window.name) if window.name in node.windows else None
        if known is not None and known.open == bool(window.queue) and known.from_ms == leaves_ms:
            return window
    return None


def _no_large_node(partition: Partition, ask: Ask, closed: Sequence[Node]) -> Constraint:
    """The constraint by nodes none of which is large enough, or only those that are `closed`: they accept no asks.
    O(nodes)."""
    if not closed:
        return _too_large(ask, min(partition.nodes.values(), key=lambda node: (never_fits(ask, node), node.id)))
    node = min(closed)
    if node.in_windows:
        by = f"{node.id} is, and window {node.in_windows[0]} drains it"
        reason = f"no node that accepts asks is large enough for {show(ask.resource)}; {by}"
        return Constraint("window", node.in_windows[0], reason)
    why = "is not ready" if not node.ready else "is draining"
    reason = f"no node that accepts asks is large enough for {show(ask.resource)}; {node.id} is, and {why}"
    return Constraint("unschedulable_node", node.id, reason)


def candidates(partition: Partition, pending: PendingAsk, index: PartitionIndex | None) -> list[Node]:
    """Nodes on which the ask may be placed; of equal nodes only one."""
    own = [partition.nodes[node_id] for node_id in pending.reservations]
    if index is not None:
        alike = index.nodes.one_of_each(pending.refused)
    else:
        alike = (n for n in partition.nodes.values() if n.candidate and n.id not in pending.refused)
    bound_to = required_node(pending.ask.tags)
    return [*alike, *(n for n in own if n.takes(bound_to) and not n.full and n.id not in pending.refused)]


def preemption_constraints(
    state: State, partition: Partition, pending: PendingAsk, index: PartitionIndex | None = None
) -> list[Constraint]:
    """The preemption under way for the ask, or why there is no plan. May take as long as planning one."""
    under_way = pending.preemption
    if under_way is not None:
        left = sum(uuid in partition.allocations for uuid in under_way.uuids)
        if under_way.nodes:
            where = under_way.domain or under_way.node.id
            reason = f"{left} of the allocations in {where} have been preempted for its group and are still to go"
            return [Constraint("preemption", where, reason)]
        reason = f"{left} of the allocations on {under_way.node.id} have been preempted for it and are still to go"
        return [Constraint("preemption", under_way.node.id, reason)]
    wants = pending.ask.allow_preempt_other and partition.settings.preemption_enabled
    if not (wants or required_node(pending.ask.tags)):
        return []
    reason = obstacle(state, partition, pending, state.now_ms, index)
    return [Constraint("preemption", "", f"nothing can be preempted for it: {reason}")] if reason else []


def kept_for_others(pending: PendingAsk, nodes: Sequence[Node]) -> list[Constraint]:
    if not nodes:
        return []
    node = min(nodes)
    assert node.reservation is not None, "the node is reserved"
    ask = node.reservation.ask
    whom = name_for(pending.application.id, ask.application_id, f"{ask.application_id}/{ask.allocation_key}")
    if len(nodes) == 1:
        reason = f"node {node.id} is kept for {whom}"
    else:
        is_for_one = all(one.reservation is not None and one.reservation.ask is ask for one in nodes)
        which = f"for {whom}" if is_for_one else f"{node.id} for {whom}"
        reason = f"nodes {node.id} and {len(nodes) - 1} more are kept{'' if is_for_one else ','} {which}"
    return [Constraint("reserved", node.id, reason)]


def full_nodes(nodes: Sequence[Node]) -> list[Constraint]:
    """The constraint by nodes that have room, but their maximum of allocations."""
    if not nodes:
        return []
    node = min(nodes)
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    reason = f"the most allocations allowed on one node, {ALLOCATIONS_PER_NODE}, are on {node.id}{more}"
    return [Constraint("full_node", node.id, reason)]


def refusals(partition: Partition, pending: PendingAsk) -> list[Constraint]:
    """The constraint by nodes that have room, but that the RM has refused."""
    found = pending.refused
    last = found.refusal if isinstance(found, PredicateClass) else pending.refusal
    nodes = [partition.nodes[node_id] for node_id in found if node_id in partition.nodes]
    refused = sum(node.schedulable and not missing(pending.ask, node) for node in nodes)
    if not refused:
        return []
    where, _, why = last.partition(": ")
    others = f"{refused} nodes, the last of them " if refused > 1 else ""
    return [Constraint("predicate", where, f"the RM refuses {others}{where}: {why}")]


def never_fits(ask: Ask, node: Node) -> float:
    """What `missing` will be when everything has left the node that can leave."""
    return missing(ask, node, all_left=True)


def missing(ask: Ask, node: Node, *, all_left: bool = False) -> float:
    """The sum over resources of the part of the need that is not available on the node, and over resources on devices
    of the part of its share that the ask lacks on the last of the devices that it wants. 0: the ask fits. A resource
    that is overbooked and not needed adds 1, because nothing fits on that node. `all_left`: when everything has left
    that can leave."""
    need = ask.resource
    capacity, occupied = node.capacity, node.occupied
    allocated = node.bound if all_left else node.allocated
    lacking = 0.0
    for name, amount in need.items():
        if amount > 0:
            have = capacity.get(name, 0) - occupied.get(name, 0) - allocated.get(name, 0)
            if amount > have:
                lacking += (amount - max(have, 0)) / amount
    for name, used in allocated.items():
        if used and used + occupied.get(name, 0) > capacity.get(name, 0) and not need.get(name):
            lacking += 1.0
    for name, used in occupied.items():
        if used > capacity.get(name, 0) and not allocated.get(name) and not need.get(name):
            lacking += 1.0
    for lack in lacks_on_devices(ask, node, all_left=all_left) if node.devices else ():
        lacking += (lack.need.share - lack.have) / lack.need.share
    return lacking


class DeviceLack(NamedTuple):
    """`have`: what is free on the last of the devices that the ask wants. `free`: on all of them, the most first."""

    need: DeviceNeed
    have: int
    free: list[int]


def lacks_on_devices(ask: Ask, node: Node, *, all_left: bool) -> list[DeviceLack]:
    found = []
    for need in needs_on(node, ask.resource, ask.tags):
        devices = node.devices[need.resource]
        offered = obtainable_on_devices(node, need.resource) if all_left else devices.offered()
        free = sorted(offered, reverse=True)
        have = free[need.devices - 1] if need.devices <= len(free) else 0
        if have < need.share:
            found.append(DeviceLack(need, have, free))
    return found


def _lack(ask: Ask, node: Node, *, bound: bool) -> Constraint:
    where = f"the required node {node.id} has" if bound else "no node has"
    found = _lacks_most(ask.resource, node.available())
    if found is None:
        return _device_lack(lacks_on_devices(ask, node, all_left=False)[0], node, where, bound=bound)
    name, wanted, have = found
    what = f"{name} needs {wanted}, {max(have, 0)} are left" if wanted else f"more {name} is taken than there is"
    reason = (
        f"{where} no room: {what}" if bound else f"{where} {show(ask.resource)} available; closest is {node.id}: {what}"
    )
    return Constraint("node", node.id, reason, name, wanted, have)


def _device_lack(lack: DeviceLack, node: Node, where: str, *, bound: bool) -> Constraint:
    """The sums suffice, and no devices do."""
    (resource, share, count), free, unit = lack.need, lack.free, node.devices[lack.need.resource].unit
    closest = "" if bound else f"{node.id} has "
    fitting = sum(amount >= share for amount in free)
    if share == unit:
        shared = sum(0 < amount < unit for amount in free)
        devices = f"{count} whole devices" if count > 1 else "a whole device"
        reason = f"{where} {devices} of {resource} free: {closest}{fitting}, and {shared} that are shared"
    elif count > 1:
        reason = f"{where} {count} devices with {resource}={share} free: {closest}{fitting}"
    else:
        best = free[0] if free else 0
        most = f"{closest}{sum(free)} in all, {best} on its best device"
        reason = f"{where} a device with {resource}={share} free: {most}"
    return Constraint("device", node.id, reason, resource, share * count, min(fitting, count) * share or lack.have)


def _too_large(ask: Ask, node: Node, *, required: bool = False) -> Constraint:
    found = _lacks_most(ask.resource, node.obtainable())
    if found is None:
        lack = lacks_on_devices(ask, node, all_left=True)[0]
        name, share, count = lack.need
        wanted, have = share * count, min(sum(amount >= share for amount in lack.free), count) * share or lack.have
        devices = f"{count} devices with {name}={share}" if count > 1 else f"a device with {name}={share}"
        what = f"it needs {devices}, {sum(amount >= share for amount in lack.free)} are there"
    else:
        name, wanted, have = found
        stays = (("occupied", node.occupied.get(name, 0)), ("bound to it", node.bound.get(name, 0)))
        what = f"{name} needs {wanted}, {node.capacity.get(name, 0)} are there"
        if any(amount for _, amount in stays):
            what += " less " + " and ".join(f"{amount} {how}" for how, amount in stays if amount)
    reason = (
        f"the required node {node.id} is not large enough for it: {what}"
        if required
        else f"no node is large enough for {show(ask.resource)}; the largest is {node.id}: {what}"
    )
    return Constraint("too_large", node.id, reason, name, wanted, have)


def _lacks_most(need: Resource, available: Resource) -> tuple[str, int, int] | None:
    """(the resource of which the largest part is missing, what is needed, what is available). Nothing is needed of a
    resource that is overbooked. None: nothing is missing but devices."""
    short = {
        name: (amount - max(available.get(name, 0), 0)) / amount
        for name, amount in need.items()
        if amount > max(available.get(name, 0), 0)
    }
    if short:
        name = min(short, key=lambda each: (-short[each], each))
    else:
        name = min((name for name, have in available.items() if have < 0), default="")
        if not name:
            return None
    return name, need.get(name, 0), available.get(name, 0)


NOBODY = Holders(0, [])


def holders_of(partition: Partition, ask: PendingAsk, constraint: Constraint) -> Holders:
    match constraint.constraint:
        case "queue" | "budget":
            queue = partition.queues[constraint.where]
            return _holding(_applications_below(queue), constraint.resource)
        case "user" | "group":
            kind, name, resource = constraint.constraint, constraint.where, constraint.resource
            full = [
                tracker
                for tracker in ask.application.trackers
                if (tracker.kind, tracker.name) == (kind, name) and resource in tracker.limit.max_resources
            ]
            top = full[-1] if full else None
            return NOBODY if top is None else _holding(_tracked(top), resource)
        case "maxapplications":
            limit = next(
                one
                for one in ask.application.application_limits
                if not one.has_running_slot() and constraint.where == (one.path if isinstance(one, Queue) else one.name)
            )
            among = _applications_below(limit) if isinstance(limit, Queue) else _tracked(limit)
            return _shown(
                [Holder(a.id, 0, len(a.allocations), a.state_at_ms) for a in among if a.counts_as_running],
                complete=True,
            )
        case "stateaware":
            first = first_to_start(ask.application.queue, None)
            since = 0 if first is None else first.state_at_ms if first.state == lifecycle.STARTING else first.at_ms
            return NOBODY if first is None else Holders(1, [Holder(first.id, 0, len(first.allocations), since)])
        case "node" | "device" | "full_node" if constraint.where:
            return _on_node(partition, constraint)
        case "reserved":
            node = partition.nodes[constraint.where]
            kept_for = node.reservation
            assert kept_for is not None, "the node is reserved"
            holder = Holder(kept_for.application.id, since_ms=kept_for.at_ms, key=kept_for.ask.allocation_key)
            return Holders(1, [holder])
    return NOBODY


def _applications_below(queue: Queue) -> Iterator[Application]:
    for below in queue.below():
        yield from below.applications.values()


def _tracked(tracker: Tracker) -> Iterator[Application]:
    return (a for a in _applications_below(tracker.queue) if tracker in a.trackers)


def _holding(applications: Iterable[Application], resource: str) -> Holders:
    found: list[Holder] = []
    complete = True
    for number, application in enumerate(applications):
        if number >= HOLDERS_LOOKED:
            complete = False
            break
        amount = application.allocated.get(resource, 0)
        amount += application.allocated_placeholder.get(resource, 0)
        if amount > 0:
            found.append(Holder(application.id, amount, len(application.allocations), _oldest(application)))
    return _shown(found, complete)


def _oldest(application: Application) -> int:
    """The time of its first allocation, in ms: allocations are kept in their order."""
    return next((allocation.at_ms for allocation in application.allocations.values()), 0)


def _on_node(partition: Partition, constraint: Constraint) -> Holders:
    node = partition.nodes[constraint.where]
    amounts: dict[str, tuple[int, int, int]] = {}
    for allocation in node.allocations.values():
        held = allocation.fact.resource.get(constraint.resource, 0)
        if constraint.resource and not held:
            continue
        amount, count, since = amounts.get(allocation.application.id, (0, 0, allocation.at_ms))
        amount += held
        amounts[allocation.application.id] = amount, count + 1, min(since, allocation.at_ms)
    return _shown([Holder(name, *sums) for name, sums in amounts.items()], complete=True)


def _shown(found: list[Holder], complete: bool) -> Holders:
    first = sorted(found, key=lambda one: (-one.amount, -one.allocations, one.application))[:HOLDERS_SHOWN]
    return Holders(len(found), first, complete)


class Positions:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._turns: dict[Queue, list[Turn]] = {}
        # By leaf: the pending allocations ahead of each application, and their total.
        self._before: dict[Queue, tuple[dict[Application, int], int]] = {}
        self._own: dict[Application, tuple[list[tuple[int, int, int]], list[int]]] = {}

    def of(self, ask: PendingAsk) -> Position:
        application, index = ask.application, self._index.partitions.get(ask.ask.partition)
        before, waiting = self._queue(application.queue, index)
        if application not in before:  # its asks are newer than the count
            del self._before[application.queue]
            before, waiting = self._queue(application.queue, index)
        ahead = before[application] + self._ahead_of_its_own(ask)
        return Position(ahead, waiting, self._turns_of(application.queue, index))

    def _queue(self, queue: Queue, index: PartitionIndex | None) -> tuple[dict[Application, int], int]:
        found = self._before.get(queue)
        if found is None:
            if index is not None:
                index.measure()
            leaf = index.order_of(queue) if index is not None else None
            rank = leaf.application_rank if isinstance(leaf, LeafOrder) else _unranked
            asking = sorted((a for a in queue.applications.values() if a.asks), key=lambda a: (rank(a), a.seq))
            sums = list(accumulate((sum_pending(a).pieces for a in asking), initial=0))
            found = self._before[queue] = dict(zip(asking, sums, strict=False)), sums[-1]
        return found

    def _ahead_of_its_own(self, ask: PendingAsk) -> int:
        """Pending allocations of the same application that come before: higher priority first, then older asks."""
        own = self._own.get(ask.application)
        if own is None:
            asks = sorted((-a.ask.priority, a.seq, a.pending) for a in ask.application.asks.values())
            own = self._own[ask.application] = asks, list(accumulate((one[2] for one in asks), initial=0))
        asks, sums = own
        return sums[bisect_left(asks, (-ask.ask.priority, ask.seq, 0))]

    def _turns_of(self, leaf: Queue, index: PartitionIndex | None) -> list[Turn]:
        found = self._turns.get(leaf)
        if found is None:
            found = self._turns[leaf] = [_turn(queue, index) for queue in reversed(leaf.path_to_root[:-1])]
        return found


def _turn(queue: Queue, index: PartitionIndex | None) -> Turn:
    assert queue.parent is not None, "root has no turn"
    siblings = [child for child in queue.parent.children.values() if child.priorities]
    order = index.order_of(queue) if index is not None else None
    if index is None or order is None:
        return Turn(queue.path, 0, len(siblings))
    index.measure()
    rank = order.rank()
    orders = map(index.order_of, siblings)
    ahead = sum(sibling.rank() < rank for sibling in orders if sibling is not None)
    return Turn(queue.path, ahead + 1, len(siblings))


def _unranked(application: Application) -> tuple[Any, ...]:
    return ()
