"""Decides commands: `decide(state, settings, command)` yields the facts that a command leads to, and returns its
answer. Never writes.

When the generator resumes after a `yield`, the fact has been applied to the state, and later decisions see it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from .. import commands
from ..facts import Fact
from ..settings import Settings
from ..state import State
from .admission import admit, enqueue_gangs
from .apply_pools import apply_pools
from .entitle import calculate_entitlements, set_capacity
from .hosts import (
    drain_hosts,
    preempt_runs,
    put_hosts,
    rank_hosts,
    recover_runs,
    remove_hosts,
    reserve_hosts,
    share_hosts,
)
from .placements import dequeue_gangs, get_placements, set_placements
from .pools import create_pool, delete_pool, update_pool
from .preemption import evict_chosen, get_preemptible_tasks, preempt
from .requeue import tick
from .updates import kill_tasks, notify_task_updates, reconcile_hosts, reconcile_pools, update_tasks_state

Decision = Generator[Fact, None, Any]

BY_COMMAND: Final[dict[type[commands.Command], Callable[[State, Settings, Any], Decision]]] = {
    commands.EnqueueGangs: enqueue_gangs,
    commands.DequeueGangs: dequeue_gangs,
    commands.SetPlacements: set_placements,
    commands.GetPlacements: get_placements,
    commands.NotifyTaskUpdates: notify_task_updates,
    commands.KillTasks: kill_tasks,
    commands.GetPreemptibleTasks: get_preemptible_tasks,
    commands.UpdateTasksState: update_tasks_state,
    commands.CreatePool: create_pool,
    commands.UpdatePool: update_pool,
    commands.DeletePool: delete_pool,
    commands.ApplyPools: apply_pools,
    commands.SetCapacity: set_capacity,
    commands.CalculateEntitlements: calculate_entitlements,
    commands.Admit: admit,
    commands.Preempt: preempt,
    commands.Evict: evict_chosen,
    commands.DrainHosts: drain_hosts,
    commands.RankHosts: rank_hosts,
    commands.PutHosts: put_hosts,
    commands.RemoveHosts: remove_hosts,
    commands.ShareHosts: share_hosts,
    commands.PreemptRuns: preempt_runs,
    commands.RecoverRuns: recover_runs,
    commands.ReserveHosts: reserve_hosts,
    commands.ReconcileHosts: reconcile_hosts,
    commands.ReconcilePools: reconcile_pools,
    commands.Tick: tick,
}


def decide(state: State, settings: Settings, command: commands.Command) -> Decision:
    return BY_COMMAND[type(command)](state, settings, command)
