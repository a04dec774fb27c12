"""Why a group waits for a domain (semantics sections 17 and 21): what its next step needs, and what comes closest."""

from __future__ import annotations

from remuda_proto.guests import name_for

from ..facts import Constraint
from ..index.asks import ApplicationAsks
from ..index.domains import Domain, copies_when_empty
from ..index.groups import Groups, Step
from ..index.partition import PartitionIndex
from ..rules.topology import shown_path
from ..state import PendingAsk


def topology_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """Empty if the ask is no member of a group, or its group has room. O(nodes)."""
    line = index.lines.get(pending) if index is not None else None
    groups = index.groups if index is not None else None
    if groups is None or not isinstance(line, ApplicationAsks) or line.ask_class.demand.group_of_asks is None:
        return []
    step = groups.next_step(line.ask_class.demand, pending)
    if step.fits:
        return []
    if step.unknown_level:
        return [Constraint("level", step.unknown_level, f"level {step.unknown_level} is not configured")]
    if step.missing:
        come = step.members - step.missing
        reason = f"{come} of the {step.members} members that start together were asked for"
        return [Constraint("domain", "", reason, "", step.members, come)]
    if step.scope is None or step.shape is None:
        reason = f"its group is in no {groups.domains.name_of(step.level)}"
        return [Constraint("domain", "", reason)]
    return [_no_room(groups, step, step.scope), *_avoided(groups, pending, starts=step.starts)]


def _avoided(groups: Groups, pending: PendingAsk, *, starts: bool) -> list[Constraint]:
    """The domain that is avoided, if that may concern the group. A group that is bound goes to its domain only."""
    known, avoidance = groups.index.partition.avoided, groups.avoidance
    if known is None or avoidance.path is None:
        return []
    where = shown_path(avoidance.path)
    if avoidance.key == groups.key_of(pending):
        return [Constraint("avoided", where, f"others avoid {where} for its group")]
    whom = name_for(pending.application.id, known.application_id, f"{known.application_id}/{known.allocation_key}")
    return [Constraint("avoided", where, f"{where} is avoided for {whom}, which has waited longer")] if starts else []


def _no_room(groups: Groups, step: Step, scope: Domain) -> Constraint:
    shape, level = step.shape, groups.domains.name_of(step.level)
    assert shape is not None, "the members have a shape"
    if not step.starts:
        where = shown_path(scope.path)
        return Constraint("domain", where, f"its group runs in {where}, where no node has room for one more", "", 1, 0)
    inside = list(scope.at(step.level))
    if not inside:
        return Constraint("domain", "", f"no node is in a {level}", "", step.needed, 0)
    best = min(inside, key=lambda one: (-shape.count(one), one.path))
    where, have = shown_path(best.path), shape.count(best)
    if step.whole and have >= step.needed:
        reason = f"no {step.whole} has room for all that its application asks for"
        return Constraint("domain", where, reason, "", step.needed, have)
    if shape.slice_size:
        fine = groups.domains.name_of(shape.slice_level)
        reason = f"{have} of {step.needed} slices of {shape.slice_size} have a {fine}"
        return Constraint("slice", where, reason + (f" in {where}" if best.path else ""), "", step.needed, have)
    largest = {one: sum(copies_when_empty(groups.domains.nodes, shape, entry) for entry in one.nodes) for one in inside}
    most = min(largest, key=lambda one: (-largest[one], one.path))
    if largest[most] < step.needed:
        ever = f"the largest, {shown_path(most.path)}, has room for {largest[most]}"
        reason = f"no {level} can ever have room for {step.needed} at once: {ever}"
        return Constraint("domain", shown_path(most.path), reason, "", step.needed, largest[most])
    reason = f"no {level} has room for {step.needed} at once: {where} has room for {have}"
    if have >= step.needed:
        reason = f"no {level} has room for all {step.members} at once, which differ: {where} is the closest"
    return Constraint("domain", where, reason, "", step.needed, have)
