"""The quotas that an ask has to fit into, and by how much they would have to be raised at least."""

from __future__ import annotations

from math import gcd

import msgspec

from ..index.limits import NOTHING_HELD
from ..state import Partition, PendingAsk, Queue, Tracker
from .steps import LIMIT, MAX, MAX_APPLICATIONS, Step


class Dimension(msgspec.Struct, frozen=True):
    """An amount of a change. The ask cannot run while it is below `least`; `least` = `before`: it needs no more. More
    than `most` helps no ask that waits now. Only multiples of `unit` beyond `least` make a difference."""

    step: Step
    least: int
    most: int
    unit: int = 1

    @property
    def before(self) -> int:
        return self.step.before


def of_quotas(partition: Partition, ask: PendingAsk) -> list[Dimension] | None:
    """Maxima and limits on the path to root. None: one that the ask does not fit cannot be changed: the number of
    applications of a queue that nobody has configured."""
    found = [*_of_resources(partition, ask), *_of_applications(partition, ask)]
    fixed = [one for one in found if one.step.step != MAX and not partition.queues[one.step.where].managed]
    if any(one.least > one.before for one in fixed):
        return None
    return [one for one in found if one not in fixed]


def _of_resources(partition: Partition, ask: PendingAsk) -> list[Dimension]:
    found = []
    for queue in ask.application.queue.path_to_root:
        held = NOTHING_HELD if ask.has_place else queue.held
        for name, maximum in sorted(queue.settings.max.items()):
            if need := ask.ask.resource.get(name, 0):
                least = queue.allocated.get(name, 0) + held.get(name, 0) + need
                step = Step(MAX, queue.path, resource=name, before=maximum)
                found.append(_dimension(partition, step, least, queue))
    for tracker in ask.application.trackers:
        held = NOTHING_HELD if ask.has_place else tracker.held
        for name, maximum in sorted(tracker.limit.max_resources.items()):
            if need := ask.ask.resource.get(name, 0):
                least = tracker.used.get(name, 0) + held.get(name, 0) + need
                step = Step(LIMIT, tracker.queue.path, who=_who(tracker), resource=name, before=maximum)
                found.append(_dimension(partition, step, least, tracker.queue))
    return found


def _dimension(partition: Partition, step: Step, least: int, queue: Queue) -> Dimension:
    least = max(least, step.before)
    name = step.resource
    unit = unit_of(partition, name)
    return Dimension(step, least, least + -(-queue.pending.get(name, 0) // unit) * unit, unit)


def _of_applications(partition: Partition, ask: PendingAsk) -> list[Dimension]:
    if ask.application.counts_as_running:
        return []
    found = []
    for one in ask.application.application_limits:
        queue = one if isinstance(one, Queue) else one.queue
        who = _who(one) if isinstance(one, Tracker) else ""
        waiting = sum(bool(a.asks) and not a.counts_as_running for a in partition.applications.values())
        step = Step(MAX_APPLICATIONS, queue.path, who=who, before=one.most_running)
        least = max(one.most_running, one.running + 1)
        found.append(Dimension(step, least, least + waiting))
    return found


def _who(tracker: Tracker) -> str:
    return f"{tracker.kind} {tracker.name}"


def of_node(partition: Partition, ask: PendingAsk, node_id: str) -> list[Dimension]:
    """The capacity of a node that is added; by resource. `node_id`: of the node that the ask is bound to, or ""."""
    pending = partition.root.pending
    found = []
    for name, need in sorted(ask.ask.resource.items()):
        if need > 0:
            unit = unit_of(partition, name)
            more = -(-pending.get(name, 0) // unit) * unit
            found.append(Dimension(Step("node", node_id, resource=name), need, need + more, unit))
    return found


def unit_of(partition: Partition, name: str) -> int:
    """The greatest common divisor of what waiting asks need of the resource: their sums are multiples of it."""
    needs = (ask.ask.resource.get(name, 0) for a in partition.applications.values() for ask in a.asks.values())
    return gcd(*needs) or 1
