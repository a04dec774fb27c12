"""Preemption: pools that have held more than their entitlement for some cycles give tasks back."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from ..commands import HOST_MAINTENANCE, REVOKE_RESOURCES, Candidate, Evict, GetPreemptibleTasks, Preempt
from ..facts import CandidateQueued, CandidatesTaken, Fact, OverAllocationCounted, TaskMoved
from ..limits import LIMIT_PER_CALL, PREEMPTION_CANDIDATES
from ..rules.lifecycle import AT_JOB_MANAGER, PENDING, PREEMPTING, RUNNING, due_ms
from ..rules.ranking import ALL_STATES, STATES, victims
from ..rules.resources import ZERO, Vector, subtract
from ..settings import Settings
from ..state import Pool, Run, State
from .requeue import requeued


def preempt(state: State, settings: Settings, command: Preempt) -> Generator[Fact, None, tuple[tuple[str, str], ...]]:
    later: list[tuple[str, str]] = []
    room = command.most_victims
    for pool_id in list(state.pools) if command.pool_ids is None else command.pool_ids:
        pool = state.pools.get(pool_id)
        if pool is None or not pool.is_leaf:
            continue
        non_slack, slack = over_allocation(pool)
        count = pool.over_count + 1 if (non_slack, slack) != (ZERO, ZERO) else 0
        due = is_eligible(count, settings)
        if (0 if due else count) != pool.over_count:
            yield OverAllocationCounted(pool.config.id, 0 if due else count)
        if due:
            chosen = victims(pool.runs.values(), non_slack, slack, settings.fewest_victims, preempted_states(settings))
            now = chosen if room is None else chosen[:room]
            room = None if room is None else room - len(now)
            later += [(run.task.id, run.task.mesos_id) for run in chosen[len(now) :]]
            yield from evict(state, settings, now, REVOKE_RESOURCES)
    return tuple(later)


def evict_chosen(state: State, settings: Settings, command: Evict) -> Generator[Fact, None, None]:
    """Runs that have ended or were replaced since are passed over."""
    runs = [state.run_of(*victim) for victim in command.victims]
    yield from evict(state, settings, (run for run in runs if run is not None), REVOKE_RESOURCES)


def over_allocation(pool: Pool) -> tuple[Vector, Vector]:
    """The amounts that a pool holds above its entitlement: by tasks that are not revocable, and by revocable ones."""
    held = pool.allocation
    return subtract(held.non_slack, pool.non_slack), subtract(held.slack, pool.slack)


def is_eligible(count: int, settings: Settings) -> bool:
    """Whether a pool gives tasks back. `count`: in how many cycles, one after the other, the pool held too much."""
    return count > 0 and count >= settings.sustained_over_allocation_count


def evict(state: State, settings: Settings, runs: Iterable[Run], reason: str) -> Generator[Fact, None, None]:
    """Tasks that a job manager has wait for it to preempt them; others go back to their pool, and are in no placement
    any more. Tasks of states that are not preempted stay as they are."""
    for run in runs:
        task = run.task
        if run.state not in preempted_states(settings):
            continue
        if run.state in AT_JOB_MANAGER:
            if task.mesos_id not in state.candidates and len(state.candidates) < PREEMPTION_CANDIDATES:
                yield CandidateQueued(task.id, task.mesos_id, reason)
        elif state.run_of(task.id, task.mesos_id) is not None:
            yield requeued(state, settings, run, PENDING, reason)


def preempted_states(settings: Settings) -> tuple[str, ...]:
    return ALL_STATES if settings.preempt_all_states else STATES


def get_preemptible_tasks(
    state: State, settings: Settings, command: GetPreemptibleTasks
) -> Generator[Fact, None, list[Candidate]]:
    """Candidates in the order in which they were chosen. Those that no job manager has any more are dropped. One that
    does not run yet keeps its state, and its time for launching: PREEMPTING would end as RUNNING."""
    answer: list[Candidate] = []
    asked_for = AT_JOB_MANAGER.intersection(preempted_states(settings)) | {PREEMPTING}
    while state.candidates and len(answer) < min(command.limit, LIMIT_PER_CALL):
        run_id, (task_id, reason) = next(iter(state.candidates.items()))
        yield CandidatesTaken(1)
        if reason == HOST_MAINTENANCE:
            if run_id in state.task_of:
                answer.append(Candidate(task_id, run_id, reason))
            continue
        run = state.run_of(task_id, run_id)
        if run is None or run.state not in asked_for:
            continue
        if run.state == RUNNING:
            yield TaskMoved(task_id, run_id, PREEMPTING, reason, due_ms(state.now_ms, PREEMPTING, settings))
        answer.append(Candidate(task_id, run_id, reason))
    return answer
