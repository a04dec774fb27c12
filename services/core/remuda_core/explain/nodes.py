"""Why no node takes an ask: none is large enough, has room, stays long enough, is accepted by the RM, or is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from remuda_proto.guests import name_for

from ..facts import Ask, Constraint
from ..index.partition import PartitionIndex
from ..limits import ALLOCATIONS_PER_NODE
from ..rules.leaving import ALWAYS_MS, ends_before
from ..rules.required_node import required_node
from ..rules.resource import Resource, show
from ..settings import Window
from ..state import Node, Partition, PendingAsk, PredicateClass
from .lacks import DeviceLack, lacks_on_devices, missing, never_fits
from .topology import topology_constraints

QUESTION: Final = "question"


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
            return _full_nodes([node])
        others = [node] if node.reservation is not None and node.reservation is not pending else []
        nodes = [] if others or bound_to in pending.refused else [node]
    else:
        others = [n for n in partition.nodes.values() if n.reservation not in (None, pending) and n.schedulable]
        nodes = _candidates(partition, pending, index)
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
    found = [*leaving, *_refusals(partition, pending), *_kept_for_others(pending, with_room), *_full_nodes(full)]
    if closest is not None:
        found.append(_lack(pending.ask, closest[2], bound=bool(bound_to)))
    return found or _kept_for_others(pending, others) or [Constraint("node", "", "there is no schedulable node")]


def _candidates(partition: Partition, pending: PendingAsk, index: PartitionIndex | None) -> list[Node]:
    """Nodes on which the ask may be placed; of equal nodes only one."""
    own = [partition.nodes[node_id] for node_id in pending.reservations]
    if index is not None:
        alike = index.nodes.one_of_each(pending.refused)
    else:
        alike = (n for n in partition.nodes.values() if n.candidate and n.id not in pending.refused)
    bound_to = required_node(pending.ask.tags)
    return [*alike, *(n for n in own if n.takes(bound_to) and not n.full and n.id not in pending.refused)]


def _refusals(partition: Partition, pending: PendingAsk) -> list[Constraint]:
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


def _kept_for_others(pending: PendingAsk, nodes: Sequence[Node]) -> list[Constraint]:
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


def _full_nodes(nodes: Sequence[Node]) -> list[Constraint]:
    """The constraint by nodes that have room, but their maximum of allocations."""
    if not nodes:
        return []
    node = min(nodes)
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    reason = f"the most allocations allowed on one node, {ALLOCATIONS_PER_NODE}, are on {node.id}{more}"
    return [Constraint("full_node", node.id, reason)]


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
    window = _leaves_in(partition, last, pending)
    if window is None:
        leave = "leaves" if len(others) == 1 else "leave"
        return staying, [Constraint("leaving", last.id, f"{which} room, but {leave} before the ask would end: {bound}")]
    what = f"window {window.name} begins before the ask would end"
    if window.queue:
        what = f"window {window.name} keeps {'it' if len(others) == 1 else 'them'} for {window.queue}"
    return staying, [Constraint("window", window.name, f"{which} room, but {what}: {bound}")]


def _leaves_in(partition: Partition, node: Node, pending: PendingAsk) -> Window | None:
    """The window at whose begin the node leaves for the ask. None: it leaves for another reason."""
    leaves_ms = node.leaves_for(pending)
    if leaves_ms >= min(node.leaves_ms, ALWAYS_MS):
        return None
    for window in partition.settings.calendar:
        known = partition.windows.get(window.name) if window.name in node.windows else None
        if known is not None and known.open == bool(window.queue) and known.from_ms == leaves_ms:
            return window
    return None


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
