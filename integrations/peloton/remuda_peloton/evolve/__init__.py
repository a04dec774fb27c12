"""Applies facts to the state. One function per kind of fact; it computes and never decides, and on a valid log it never
fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import facts
from ..state import State
from . import hosts, pools, queues, runs


def evolve(state: State, fact: facts.Fact) -> None:
    """Apply one fact. `state.now_ms` must be the time of its commit."""
    BY_FACT[type(fact)](state, fact)


BY_FACT: Final[dict[type[facts.Fact], Callable[[State, Any], None]]] = {
    facts.PoolCreated: pools.pool_created,
    facts.PoolUpdated: pools.pool_updated,
    facts.PoolDeleted: pools.pool_deleted,
    facts.CapacityChanged: pools.capacity_changed,
    facts.EntitlementsChanged: pools.entitlements_changed,
    facts.OverAllocationCounted: pools.over_allocation_counted,
    facts.GangEnqueued: queues.gang_enqueued,
    facts.GangReduced: queues.gang_reduced,
    facts.GangMoved: queues.gang_moved,
    facts.GangAdmitted: queues.gang_admitted,
    facts.GangDequeued: queues.gang_dequeued,
    facts.TaskRequeued: queues.task_requeued,
    facts.GangRequeued: queues.gang_requeued,
    facts.PlacementQueued: queues.placement_queued,
    facts.PlacementTaken: queues.placement_taken,
    facts.CandidateQueued: queues.candidate_queued,
    facts.CandidatesTaken: queues.candidates_taken,
    facts.TaskMoved: runs.task_moved,
    facts.RunEnded: runs.run_ended,
    facts.RunRecovered: runs.run_recovered,
    facts.HostsPut: hosts.hosts_put,
    facts.HostsRemoved: hosts.hosts_removed,
    facts.HostReserved: hosts.host_reserved,
    facts.HostsShared: hosts.hosts_shared,
    facts.SharedPlaced: hosts.shared_placed,
    facts.HostsRanked: runs.hosts_ranked,
    facts.EventsAcknowledged: runs.events_acknowledged,
    facts.TimePassed: runs.time_passed,
}
