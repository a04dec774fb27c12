"""Let others avoid one domain for the group that has waited longest for one (semantics section 21, "Avoided").

One domain of a partition is avoided: for the oldest group that requires a level, has waited for `timing.domain_delay`,
is kept by no quota, and that some domain can hold. Nothing is kept for it, and nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from .. import facts
from ..costs import cost_together
from ..facts import DomainAvoided, Fact
from ..index.groups import Groups, Start
from ..index.limits import exceeds, limit_of
from ..index.partition import PartitionIndex
from ..limits import GROUPS_LOOKED_AT
from ..state import Partition, PendingAsk, State


def avoid(state: State, partition: Partition, index: PartitionIndex, groups: Groups, now_ms: int) -> Iterator[Fact]:
    """Choose the domain that is avoided, or none. What is avoided stays so while its group waits longest, and is chosen
    anew after the delay. Looks at GROUPS_LOOKED_AT groups."""
    delay_ms, known, avoidance = state.timing.domain_delay_ms, partition.avoided, groups.avoidance
    groups.settle()  # an index that is new knows the groups from here on
    if known is None and not avoidance.by_age:
        return
    for ask in islice(avoidance.waiting_since(now_ms - delay_ms), GROUPS_LOOKED_AT):
        start = waits_for(index, groups, ask)
        if start is None:
            continue
        key = groups.key_of(ask)
        lasts = known is not None and avoidance.domain is not None and now_ms < partition.avoided_ms + delay_ms
        if lasts and key == avoidance.key:
            return
        domain = groups.nearest(start)
        if domain is None:
            continue
        if known is not None and (key, domain.path) != (avoidance.key, avoidance.path):
            same = key == avoidance.key
            yield ended(known, "another one is nearer" if same else "another group has waited longest")
        level = groups.domains.name_of(domain.level)
        path = tuple(value for value in domain.path if value is not None)
        application_id, group = key
        missing = groups.missing(start, domain)
        yield DomainAvoided(partition.name, application_id, ask.ask.allocation_key, group, level, path, missing)
        return
    if known is not None:
        yield ended(known, "its group does not wait for a domain any more")


def waits_for(index: PartitionIndex, groups: Groups, ask: PendingAsk) -> Start | None:
    """The next placement of the ask's group, if the group waits for a domain and for nothing else."""
    if ask in index.preempting_together or index.holds_back(ask.application):
        return None
    start = groups.start_of(ask)
    if isinstance(start, str) or limit_of(ask, start.resource, cost_together(start.asks)) is not None:
        return None
    path_to_root = ask.application.queue.path_to_root
    if any(exceeds(start.resource, queue.settings.max, queue.allocated, queue.held) for queue in path_to_root):
        return None
    return None if index.demand_of(ask).open and groups.has_room_for(ask) else start


def ended(known: DomainAvoided, reason: str) -> Fact:
    return facts.DomainAvoidanceEnded(*known.ask_name, known.group, known.level, known.domain, reason)
