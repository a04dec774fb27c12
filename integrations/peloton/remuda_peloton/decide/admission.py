"""Admission: gangs of each leaf become READY while the leaf has room."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import Admit
from ..facts import Fact, GangAdmitted, GangMoved, GangReduced
from ..limits import LOOKS_PER_LEAF, READY_GANGS
from ..rules.admission import ADMITTED, FULL, INVALID, QUEUES, SKIPPED, obstacle, queue_aside
from ..rules.task import traits
from ..settings import Settings
from ..state import Gang, Pool, State


def admit(state: State, settings: Settings, command: Admit) -> Generator[Fact, None, int]:
    """Leaves in the order in which they began to wait. Only gangs hold each other up, and only in their leaf."""
    admitted = 0
    for pool_id in list(state.waiting) if command.pool_ids is None else command.pool_ids:
        if pool_id not in state.waiting:
            continue
        admitted += len((yield from admit_in(state, settings, state.pools[pool_id], LOOKS_PER_LEAF)))
    return admitted


def admit_in(state: State, settings: Settings, pool: Pool, limit: int) -> Generator[Fact, None, list[int]]:
    """One pass over one leaf: the numbers of the gangs that were admitted. `limit`: how many gangs it looks at."""
    admitted: list[int] = []
    looks = 0
    for name in QUEUES:
        while looks < limit and state.ready_count < READY_GANGS:
            number = pool.queues[name].first()
            if number is None:
                break
            result = yield from try_admit(state, settings, state.gangs[number])
            looks += result == ADMITTED or not settings.count_admitted_only
            if result == ADMITTED:
                admitted.append(number)
            elif result == FULL:
                break
    return admitted


def try_admit(state: State, settings: Settings, gang: Gang) -> Generator[Fact, None, str]:
    """One attempt to admit a gang. Returns ADMITTED; INVALID: it has lost members, and queues anew without them; FULL:
    it waits where it is; or how it has stepped aside."""
    members = state.members(gang)
    if len(members) < len(gang.tasks):
        yield GangReduced(gang.number, settings.survivors_keep_their_place)
        return INVALID
    pool, gang_traits = state.pools[gang.pool_id], traits(gang.tasks)
    if obstacle(gang_traits, pool.room(), settings.preemption_enabled) is None:
        yield GangAdmitted(gang.number)
        return ADMITTED
    queue = queue_aside(gang_traits, gang.queue, settings.preemption_enabled)
    if queue == gang.queue:
        return FULL
    yield GangMoved(gang.number, queue)
    return SKIPPED[queue]
