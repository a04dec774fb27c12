"""Sections 9 to 12 of the semantics, word for word and slowly: the next ask, and the best node.

Looks at the state only, never at the index, and shares no code with the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from remuda_core.facts import Allocated, Fact, NodeReserved, ReplacementStarted
from remuda_core.rules.resource import Resource, items_of, total_of
from remuda_core.rules.share import scales_of, weight
from remuda_core.settings import Limit
from remuda_core.state import Allocation, Application, Node, Partition, PendingAsk, PredicateClass, Queue

from . import leaving_oracle, memory_oracle, topology_oracle
from .node_oracle import (
    bound_to,
    counts,
    first_by_price,
    has_prices,
    has_room,
    is_asked_about,
    is_full,
    lacks_on_devices,
    obtainable,
    packed,
    refuses,
    score,
    serves_devices,
)
from .spending_oracle import fits_budgets, what_it_costs

# Scores are means of floating-point numbers: so close together, they are the same.
CLOSE = 1e-9


@dataclass(frozen=True)
class Next:
    """The first decision of a cycle: `kind` of fact, for this ask, on any of these nodes."""

    kind: type[Fact]
    application_id: str
    allocation_key: str
    nodes: set[str]


def next_step(partition: Partition, now_ms: int, reservation_delay_ms: int) -> Next | None:
    """None if no ask fits and none may reserve a node."""
    held = {queue for queue in partition.queues.values() if any(above.hold for above in queue.path_to_root)}
    everyone = [ask for ask in in_order(partition, partition.root, now_ms) if ask.application.queue not in held]
    asks = [ask for ask in everyone if may_run(ask) and fits_limits(ask) and fits_maxima(ask)]
    asks = [ask for ask in asks if fits_budgets(partition, ask)]
    for own in (True, False):
        for ask in asks:
            nodes = reserved_nodes(partition, ask) if own else best_nodes(partition, ask) or untried(partition, ask)
            if ask.reservations and nodes:
                return Next(Allocated, ask.application.id, ask.ask.allocation_key, nodes)
    for ask in everyone:
        if ask.free and awaits_place(ask) and (nodes := places(partition, ask)):
            return Next(ReplacementStarted, ask.application.id, ask.ask.allocation_key, nodes)
    found = _step(partition, asks, now_ms, reservation_delay_ms)
    if found is None:
        return None
    for ask in memory_oracle.late(asks, now_ms):
        if not ask.free or awaits_place(ask) or not has_its_turn(ask.application):
            continue
        if topology_oracle.member(ask) is not None or not memory_oracle.goes_before(ask, ask_of(partition, found)):
            continue
        if nodes := packed_node(partition, ask) or best_nodes(partition, ask):
            return Next(Allocated, ask.application.id, ask.ask.allocation_key, nodes)
    return found


def ask_of(partition: Partition, found: Next) -> PendingAsk:
    return partition.applications[found.application_id].asks[found.allocation_key]


def _step(partition: Partition, asks: list[PendingAsk], now_ms: int, reservation_delay_ms: int) -> Next | None:
    """Of asks that fit their quotas, in the order of queues."""
    too_young = set()
    for ask in asks:
        if not ask.free or awaits_place(ask) or not has_its_turn(ask.application):
            continue
        if topology_oracle.member(ask) is not None:  # it reserves no node
            if step := topology_oracle.step(partition, ask):
                return Next(Allocated, ask.application.id, *step)
            unknown = to_ask_about(partition, ask) if topology_oracle.fits_quotas(partition, ask) else set()
            if unknown and not partition.questions_paused:
                return Next(Allocated, ask.application.id, ask.ask.allocation_key, unknown)
            continue
        nodes = packed_node(partition, ask) or best_nodes(partition, ask)
        if nodes or ((unknown := to_ask_about(partition, ask)) and not partition.questions_paused):
            return Next(Allocated, ask.application.id, ask.ask.allocation_key, nodes or unknown)
        if unknown or is_asked_about(ask):
            continue
        bound = bound_to(ask)
        # Asks that are the same to the rules.
        path = ask.application.queue.path
        kind = (
            path,
            items_of(ask.ask.resource),
            counts(partition, ask),
            bound,
            ask.refused,
            *what_limits(ask.application),
            *what_it_costs(ask),
        )
        since_ms = ask.timed_out_ms + 1 if ask.timed_out_ms else ask.at_ms
        if now_ms < since_ms + (0 if bound else reservation_delay_ms):
            too_young.add(kind)
        if (
            kind not in too_young
            and fits_beside_reserved(partition, ask)
            and (bound or has_share(partition, ask))
            and fits_total(partition, ask)
            and (nodes := bound_node(partition, ask) if bound else closest(partition, ask))
        ):
            # An ask that is bound to a node replaces the reservation of another ask.
            fits = bound and has_room(partition.nodes[bound], ask.ask.resource, ask.ask.tags)
            return Next(Allocated if fits else NodeReserved, ask.application.id, ask.ask.allocation_key, nodes)
    return None


def awaits_place(pending: PendingAsk) -> bool:
    """A placeholder of its task group can be taken, is being taken, or is still to come."""
    ask, application = pending.ask, pending.application
    if ask.placeholder or not ask.task_group:
        return False
    return any(a.ask.placeholder and a.ask.task_group == ask.task_group for a in application.asks.values()) or any(
        a.fact.placeholder and a.fact.task_group == ask.task_group and (a.replacement or can_be_taken(a))
        for a in application.allocations.values()
    )


def can_be_taken(placeholder: Allocation) -> bool:
    """Not if it is on its way out, except that of those that go because the gang resumes one may still be taken. Which
    these are, only the state knows (`check` compares what can be compared)."""
    group = placeholder.application.task_groups[placeholder.fact.task_group]
    return placeholder.fact.uuid in group.free


def places(partition: Partition, pending: PendingAsk) -> set[str]:
    ask = pending.ask
    free = [
        a
        for a in pending.application.allocations.values()
        if a.fact.placeholder and a.fact.task_group == ask.task_group and can_be_taken(a) and not smaller(a, pending)
    ]
    bound_to = ask.tags.get("si/requiredNode") or ask.tags.get("yunikorn.apache.org/requiredNode", "")
    fine = [a for a in free if serves_devices(a, pending)]
    same = {a.node.id for a in fine if takes(a.node, pending) and bound_to in ("", a.node.id)}
    same = {node_id for node_id in same if node_id not in pending.refused}
    if same or not free:
        return same
    if topology_oracle.member(pending) is not None:
        return topology_oracle.beside(partition, pending)
    return untried(partition, pending)


def smaller(placeholder: Allocation, pending: PendingAsk) -> bool:
    return any(amount > placeholder.fact.resource.get(name, 0) for name, amount in pending.ask.resource.items())


def something_is_too_small(partition: Partition) -> bool:
    """A cycle gives up places that are too small for an ask, which then is an ask like all others."""
    return any(
        placeholder.fact.placeholder
        and placeholder.fact.task_group == pending.ask.task_group
        and can_be_taken(placeholder)
        and smaller(placeholder, pending)
        for application in partition.applications.values()
        for pending in application.asks.values()
        if awaits_place(pending)
        for placeholder in application.allocations.values()
    )


def in_order(partition: Partition, queue: Queue, now_ms: int) -> Iterator[PendingAsk]:
    if queue.leaf:
        for application in sorted(asking(queue), key=lambda a: application_rank(partition, queue, a, now_ms)):
            yield from sorted(waiting(application), key=lambda a: (-a.ask.priority, a.seq))
        return
    children = [child for child in queue.children.values() if any(pending(child))]
    for child in sorted(children, key=lambda c: queue_rank(partition, queue, c, now_ms)):
        yield from in_order(partition, child, now_ms)


def pending(queue: Queue) -> Iterator[PendingAsk]:
    for application in asking(queue):
        yield from waiting(application)
    for child in queue.children.values():
        yield from pending(child)


def asking(queue: Queue) -> list[Application]:
    return [application for application in queue.applications.values() if waiting(application)]


def waiting(application: Application) -> list[PendingAsk]:
    """Not those about all of which the RM is asked."""
    return [ask for ask in application.asks.values() if ask.pending]


def by_priority(queue: Queue) -> bool:
    return queue.settings.properties.get("application.sort.priority", "enabled") == "enabled"


def priority_of(queue: Queue) -> int:
    offset = int(queue.settings.properties.get("priority.offset", "0"))
    if queue.settings.properties.get("priority.policy") == "fence":
        return offset
    below = [priority_of(child) for child in queue.children.values() if any(pending(child))]
    below += [a.ask.priority for application in asking(queue) for a in waiting(application)]
    return max(-(2**31), min(2**31 - 1, max(below) + offset))  # an int32, like the priority of an ask


def queue_rank(partition: Partition, parent: Queue, queue: Queue, now_ms: int) -> tuple[Any, ...]:
    priority, share = -priority_of(queue), share_of(partition, queue, now_ms)
    first = (priority, share) if by_priority(parent) else (share, priority)
    return (*first, -weight(queue.pending, scales_of(partition.total)), queue.path)


def share_of(partition: Partition, queue: Queue, now_ms: int) -> Any:
    if queue.parent is not None and memory_oracle.half_life_ms(queue.parent):
        return memory_oracle.queue_share(queue.parent, queue, due_to(partition, queue), now_ms)
    if partition.yunikorn_1_4:
        return raw_shares(queue, queue.allocated)
    shares = [Fraction(0)]
    for name, used in queue.allocated.items():
        limits = [queue.settings.guaranteed, *(q.settings.max for q in queue.path_to_root), partition.total]
        due = next((limit[name] for limit in limits if name in limit), 0)
        if used:
            shares.append(Fraction(used, due) if due else Fraction(1))
    return max(shares)


def due_to(partition: Partition, queue: Queue) -> Resource:
    limits = [queue.settings.guaranteed, *(q.settings.max for q in queue.path_to_root), partition.total]
    return {name: amount for limit in reversed(limits) for name, amount in limit.items()}


def raw_shares(queue: Queue, used: Resource) -> list[Fraction]:
    guaranteed = queue.settings.guaranteed
    return sorted((Fraction(n, guaranteed.get(name) or 1) for name, n in used.items() if n), reverse=True)


def application_rank(partition: Partition, queue: Queue, application: Application, now_ms: int) -> tuple[Any, ...]:
    priority = -max(a.ask.priority for a in waiting(application))
    then: Any = application.seq
    if queue.settings.properties.get("application.sort.policy") == "fair-users":
        share, seq = memory_oracle.share_in_leaf(partition, queue, application, now_ms), application.seq
        return (priority, *share, seq) if by_priority(queue) else (*share, priority, seq)
    if queue.settings.properties.get("application.sort.policy") == "fair" and memory_oracle.half_life_ms(queue):
        then = memory_oracle.share_in_leaf(partition, queue, application, now_ms)
    elif queue.settings.properties.get("application.sort.policy") == "fair":
        shares = [
            Fraction(used, partition.total[name]) if partition.total.get(name) else Fraction(1)
            for name, used in application.allocated.items()
            if used
        ]
        then = raw_shares(queue, application.allocated) if partition.yunikorn_1_4 else sorted(shares, reverse=True)
    return (priority, then, application.id) if by_priority(queue) else (then, priority, application.id)


def has_its_turn(application: Application) -> bool:
    """Of the applications in a stateaware queue that are not Running yet one at most."""
    queue = application.queue
    if queue.settings.properties.get("application.sort.policy") != "stateaware" or application.state != "Accepted":
        return True
    if any(other.state == "Starting" for other in queue.applications.values()):
        return False
    accepted = [other for other in queue.applications.values() if other.state == "Accepted" and other.asks]
    return all(application.seq <= other.seq for other in accepted)


def what_limits(application: Application) -> tuple[object, ...]:
    """The constraints that its asks have to pass, as far as they do not depend on amounts."""
    limits = limits_for(application)
    trackers = tuple((queue.path, name) for queue, name, limit in limits if limit.max_resources)
    application_limits = tuple((queue.path, name) for queue, name, limit in limits if limit.max_applications)
    gated = application_limits or any(queue.settings.max_applications for queue in application.queue.path_to_root)
    return trackers, application_limits if gated and not application.counts_as_running else None


def may_run(ask: PendingAsk) -> bool:
    """It runs already, or there is a slot for it everywhere."""
    application = ask.application
    if application.counts_as_running:
        return True
    for queue in application.queue.path_to_root:
        running = [other for other in below(queue) if other.counts_as_running]
        if queue.settings.max_applications and len(running) >= queue.settings.max_applications:
            return False
    for limit, others in limits_of(application):
        running = [other for other in others if other.counts_as_running]
        if limit.max_applications and len(running) >= limit.max_applications:
            return False
    return True


def fits_limits(ask: PendingAsk) -> bool:
    for limit, others in limits_of(ask.application):
        for name, maximum in limit.max_resources.items():
            used = sum(o.allocated.get(name, 0) + o.allocated_placeholder.get(name, 0) for o in others)
            used += 0 if has_place(ask) else sum(held_for(other, name) for other in others)
            if ask.ask.resource.get(name, 0) > maximum - used:
                return False
    return True


def limits_of(application: Application) -> Iterator[tuple[Limit, list[Application]]]:
    """Every limit that applies to an application, with the applications whose use it adds up."""
    for queue, name, limit in limits_for(application):
        yield limit, [other for other in below(queue) if (queue, name, limit) in limits_for(other)]


def limits_for(application: Application) -> list[tuple[Queue, str, Limit]]:
    """In which queue, for whom."""
    found = []
    for queue in application.queue.path_to_root:
        for kind, limit_for in (("user", user_limit), ("group", group_limit)):
            limit, name = limit_for(queue, application)
            if limit is not None:
                found.append((queue, f"{kind} {name}", limit))
    return found


def user_limit(queue: Queue, application: Application) -> tuple[Limit | None, str]:
    for name in (application.user, "*"):
        for limit in queue.settings.limits:
            if name in limit.users:
                return limit, application.user
    return None, ""


def group_limit(queue: Queue, application: Application) -> tuple[Limit | None, str]:
    """Of the application's one group: the first that is named on the way up."""
    if not application.groups:
        return None, ""
    names = [name for q in application.queue.path_to_root for limit in q.settings.limits for name in limit.groups]
    known = [name for name in names if name in application.groups]
    for name in (*known[:1], "*"):
        for limit in queue.settings.limits:
            if name in limit.groups:
                return limit, name
    return None, ""


def below(queue: Queue) -> Iterator[Application]:
    yield from queue.applications.values()
    for child in queue.children.values():
        yield from below(child)


def fits_maxima(ask: PendingAsk) -> bool:
    """Headroom may be negative: then no ask fits, whatever it needs."""
    for queue in ask.application.queue.path_to_root:
        for name, maximum in queue.settings.max.items():
            used = queue.allocated.get(name, 0)
            used += 0 if has_place(ask) else sum(held_for(other, name) for other in below(queue))
            if ask.ask.resource.get(name, 0) > maximum - used:
                return False
    return True


def has_place(ask: PendingAsk) -> bool:
    """Others are preempted for it, and the node is reserved for it: so is its place under maxima and limits."""
    return ask.preemption is not None and ask.preemption.node.reservation is ask


def held_for(application: Application, name: str) -> int:
    return sum(ask.ask.resource.get(name, 0) for ask in application.asks.values() if has_place(ask)) + sum(
        count * ask.ask.resource.get(name, 0)
        for ask in application.asks.values()
        if ask.preemption is not None
        for member, count in ask.preemption.members.items()
        if member is ask
    )


# Where is best


def best_nodes(partition: Partition, ask: PendingAsk, refuses: Callable[[PendingAsk, str], bool] = refuses) -> set[str]:
    """IDs of the nodes with the best score; of nodes that are the same only the one with the smallest ID."""
    if has_prices(partition):
        fine = [n for n in candidates(partition, ask) if bound_to(ask) in ("", n.id) and not refuses(ask, n.id)]
        fine = [n for n in fine if has_room(n, ask.ask.resource, ask.ask.tags)]
        beside = [n for n in fine if n.id not in topology_oracle.avoided_nodes(partition)]
        return first_by_price(partition, beside or fine, ask)
    if partition.settings.pack == "topology":
        fine = [n for n in candidates(partition, ask) if bound_to(ask) in ("", n.id) and not refuses(ask, n.id)]
        fine = [n for n in fine if has_room(n, ask.ask.resource, ask.ask.tags)]
        if bound_to(ask) or not fine:
            return {n.id for n in fine}
        last = topology_oracle.avoided_nodes(partition)
        ranks = {
            n.id: (n.id in last, *topology_oracle.brokenness(partition, n), round(score(partition, n), 9), n.id)
            for n in fine
        }
        return {min(ranks, key=ranks.__getitem__)}
    alike: dict[object, tuple[float, str]] = {}
    last = topology_oracle.avoided_nodes(partition)
    for node in candidates(partition, ask):
        wanted = bound_to(ask) in ("", node.id) and not refuses(ask, node.id)
        if wanted and has_room(node, ask.ask.resource, ask.ask.tags):
            free = [(name, sorted(devices.offered())) for name, devices in sorted(node.devices.items())]
            shape = (
                sorted(node.capacity.items()), sorted((n, a) for n, a in node.available().items() if a), free,
                node.id in last,
            )  # fmt: skip
            alike.setdefault(repr(shape), (score(partition, node), node.id))
    if any(node_id not in last for _, node_id in alike.values()):
        alike = {shape: found for shape, found in alike.items() if found[1] not in last}
    best = min((score for score, _ in alike.values()), default=0.0)
    return {node_id for score, node_id in alike.values() if score <= best + CLOSE}


def untried(partition: Partition, ask: PendingAsk) -> set[str]:
    """The best nodes that the RM has not refused."""
    return best_nodes(partition, ask, lambda ask, name: name in ask.refused)


def to_ask_about(partition: Partition, ask: PendingAsk) -> set[str]:
    """The nodes about which the RM may be asked first: those without a verdict that have the best score."""
    if not isinstance(ask.refused, PredicateClass) or is_asked_about(ask):
        return set()
    unknown = [node for node in candidates(partition, ask) if not ask.refused.has_verdict(node.id)]
    unknown = [
        node for node in unknown if bound_to(ask) in ("", node.id) and has_room(node, ask.ask.resource, ask.ask.tags)
    ]
    last = topology_oracle.avoided_nodes(partition)
    unknown = [node for node in unknown if node.id not in last] or unknown
    best = min((score(partition, node) for node in unknown), default=0.0)
    return {node.id for node in unknown if score(partition, node) <= best + CLOSE}


def packed_node(partition: Partition, ask: PendingAsk) -> set[str]:
    last = topology_oracle.avoided_nodes(partition)
    return (
        set() if bound_to(ask) else packed(partition, ask, [n for n in candidates(partition, ask) if n.id not in last])
    )


def candidates(partition: Partition, ask: PendingAsk) -> list[Node]:
    nodes = sorted(partition.nodes.values(), key=lambda n: n.id)
    return [node for node in nodes if takes(node, ask) and is_free(node) and not is_full(partition, node)]


def is_free(node: Node) -> bool:
    """Neither reserved for an ask nor kept for a group."""
    return node.reservation is None and node.kept is None


def takes(node: Node, ask: PendingAsk) -> bool:
    """A node that is not ready takes nothing, a draining one only asks that are bound to it, and one that leaves what
    ends before."""
    ready = node.attributes.get("ready", "true").lower() != "false"
    return ready and (not node.draining or bound_to(ask) == node.id) and leaving_oracle.stays(node, ask)


# Reservations


def reserved_nodes(partition: Partition, ask: PendingAsk) -> set[str]:
    """Those kept for it that have room by now."""
    nodes = [partition.nodes[node_id] for node_id in ask.reservations]
    fine = [n for n in nodes if takes(n, ask) and n.id not in ask.refused and not is_full(partition, n)]
    return {node.id for node in fine if has_room(node, ask.ask.resource, ask.ask.tags)}


def bound_node(partition: Partition, ask: PendingAsk) -> set[str]:
    """The node itself, unless too little can be obtained there, or it is kept for another that has to be there."""
    node = partition.nodes.get(bound_to(ask))
    if (
        node is None
        or not takes(node, ask)
        or node.id in ask.refused
        or is_full(partition, node)
        or (node.reservation is not None and bound_to(node.reservation))
        or node.kept is not None
    ):
        return set()
    return {node.id} if obtainable(node, ask.ask.resource, ask.ask.tags) else set()


def fits_beside_reserved(partition: Partition, ask: PendingAsk) -> bool:
    """With all that is reserved, and one more allocation, no maximum and no limit is exceeded."""
    bounds: list[tuple[Resource, list[Application], Resource]] = [
        (queue.settings.max, list(below(queue)), queue.allocated) for queue in ask.application.queue.path_to_root
    ]
    for limit, others in limits_of(ask.application):
        used = [total for o in others for total in (o.allocated, o.allocated_placeholder)]
        bounds.append((limit.max_resources, others, total_of(used)))
    return fits_budgets(partition, ask, also_reserved=True) and all(
        ask.ask.resource.get(name, 0) <= maximum - used.get(name, 0) - sum(reserved_for(o, name) for o in others)
        for most, others, used in bounds
        for name, maximum in most.items()
    )


def reserved_for(application: Application, name: str) -> int:
    return sum(ask.ask.resource.get(name, 0) * len(ask.reservations) for ask in application.asks.values())


def has_share(partition: Partition, ask: PendingAsk) -> bool:
    """Asks that are not bound keep at most so many nodes, and those of its queue."""
    kept = [node.reservation for node in partition.nodes.values() if node.reservation and not preempts_on(node)]
    unbound = [one for one in kept if not bound_to(one)]
    of_queue = [one for one in unbound if one.application.queue is ask.application.queue]
    settings, nodes = partition.settings, len(partition.nodes)
    return len(unbound) < max(1, nodes * settings.reservation_share // 100) and len(of_queue) < max(
        1, nodes * settings.queue_reservation_share // 100
    )


def preempts_on(node: Node) -> bool:
    return any(p.node is node for p in [node.reservation.preemption] if p) if node.reservation else False


def fits_total(partition: Partition, ask: PendingAsk) -> bool:
    """All there is, but for what others occupy, has room."""
    rest = total_of(node.available() for node in partition.nodes.values())
    return all(amount <= rest.get(name, 0) for name, amount in ask.ask.resource.items() if amount)


def closest(partition: Partition, ask: PendingAsk) -> set[str]:
    """The candidates that lack least, of those on which it can be obtained; the one on which a reservation timed out
    only if there is no other."""
    last = topology_oracle.avoided_nodes(partition)
    others = [node for node in candidates(partition, ask) if node.id != ask.timed_out_on]
    found = _closest(ask, [node for node in others if node.id not in last]) or _closest(ask, others)
    return found or _closest(ask, candidates(partition, ask))


def _closest(ask: PendingAsk, nodes: list[Node]) -> set[str]:
    need = ask.ask.resource
    lacking = {}
    for node in nodes:
        if obtainable(node, need, ask.ask.tags) and node.id not in ask.refused:
            available = node.available()
            lacking[node.id] = sum(
                (amount - max(available.get(name, 0), 0)) / amount
                for name, amount in need.items()
                if amount > 0 and amount > available.get(name, 0)
            ) + sum(1 for name, have in available.items() if have < 0 and not need.get(name))
            lacking[node.id] += sum(lacks_on_devices(node, name, amount, ask.ask.tags) for name, amount in need.items())
    least = min(lacking.values(), default=0.0)
    return {node_id for node_id, lack in lacking.items() if lack <= least + CLOSE}
