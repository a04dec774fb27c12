"""Rules of Peloton's resource manager, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import Mutant

SECTION: Final = "peloton"  # in place of the number of a section: docs/peloton.md has the rules


def _of(module: str, *broken: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    return tuple(
        Mutant(f"peloton_{name}", f"{SECTION}: {rule}", f"remuda_resmgr.{module}", text, by)
        for name, rule, text, by in broken
    )


PELOTON: Final = (
    *_of(
        "rules.entitlement",
        ("static_is_lent", "a STATIC reservation is not lent", "np.where(tree.static[own], reservation, np.minimum(need, reservation))", "np.minimum(need, reservation)"),
        ("need_without_share", "need beyond the reservation goes by share", "np.minimum(share * rate[level.group], unmet)", "np.minimum(rate[level.group], unmet)"),
        ("limit_does_not_cap", "a pool gets at most its limit", "np.minimum(limit, got + counted * rate[level.group])", "got + counted * rate[level.group]"),
        ("reserved_without_need", "an ELASTIC reservation is only what the pool needs", "np.minimum(need, reservation))", "reservation)"),
        ("never_scaled", "scale_reservations", "        if scale:\n", "        if False:\n"),
        ("always_scaled", "without scale_reservations children may have more than their parent", "        if scale:\n", "        if True:\n"),
        ("leftovers_stay", "spread_leftovers", "range(ROUNDS if spread else 1)", "range(1)"),
        ("share_0_spins", "a pool with share 0 gets no more than its reservation", "        if not given_sums.any():\n            return left\n    return _fill", "        if not given_sums.any():\n            got += unmet\n            return left\n    return _fill"),
    ),
    *_of(
        "rules.admission",
        ("no_entitlement", "a gang fits into the entitlement", 'problem = _above("entitlement", subtract(held.total, held.slack), gang.resource, room.non_slack)', "problem = None"),
        ("slack_counts_as_held", "what revocable tasks hold does not count against the others", "subtract(held.total, held.slack)", "held.total"),
        ("no_controller_limit", "controllers are limited", "if problem is None and gang.controller and", "if False and gang.controller and"),
        ("reservation_is_lent", "a gang that is not preemptible fits into the reservation", "if problem is None and preemption_enabled and not gang.preemptible:", "if False:"),
        ("revocable_without_slack", "revocable gangs fit into the slack entitlement", 'return _above("slack_entitlement", held.slack, gang.resource, room.slack)', "return None"),
        ("non_preemptible_stays", "a gang that is not preemptible steps aside", "        return NON_PREEMPTIBLE_QUEUE\n", "        return queue\n"),
        ("controller_stays", "a controller steps aside", "        return CONTROLLER_QUEUE\n", "        return queue\n"),
        ("revocable_stays", "a revocable gang steps aside", "return REVOCABLE_QUEUE if gang.revocable else queue", "return queue"),
    ),
    *_of(
        "decide.admission",
        ("survivors_are_lost", "a gang that lost a member is admitted without it", "    if len(members) < len(gang.tasks):", "    if not members:"),
        ("place_is_always_kept", "a gang that lost a member goes to the end", "yield GangReduced(gang.number, settings.survivors_keep_their_place)", "yield GangReduced(gang.number, True)"),
        ("place_is_never_kept", "survivors_keep_their_place", "yield GangReduced(gang.number, settings.survivors_keep_their_place)", "yield GangReduced(gang.number, False)"),
        ("looks_always_count", "count_admitted_only", "looks += result == ADMITTED or not settings.count_admitted_only", "looks += 1"),
        ("full_holds_up_all_queues", "a gang that does not fit holds up its own queue alone", "            elif result == FULL:\n                break", "            elif result == FULL:\n                looks = limit"),
    ),
    *_of(
        "decide.enqueue",
        ("refused_gang_partly_stays", "a gang is enqueued as a whole", "        if refused:\n", "        if refused and all(one.code != GANG_FAILED for one in refused):\n"),
        ("known_run_is_enqueued", "a run that is known is refused", "    if task.mesos_id in state.task_of:", "    if False:"),
        ("work_for_inner_pools", "gangs go to leaves", "        if not pool.is_leaf:", "        if False:"),
        ("no_id_is_an_id", "a task has an ID", "    if not task.id or not task.mesos_id:", "    if False:"),
    ),
    *_of(
        "decide.placements",
        ("youngest_first", "the oldest gang of any type is dequeued", "return min((next(iter(queue)) for queue in state.ready.values()), default=None)", "return max((next(iter(queue)) for queue in state.ready.values()), default=None)"),
        ("empty_gangs_are_handed_out", "a gang without members is not handed out", "        if members:\n            answer.append(tuple(handed", "        if True:\n            answer.append(tuple(handed"),
        ("empty_placements_are_kept", "a placement without tasks is dropped", "        if tasks:\n            answer.append(msgspec", "        if True:\n            answer.append(msgspec"),
        ("former_run_returns_the_present", "a failed placement of a former run returns nothing", "or (run_id and run.task.mesos_id != run_id)", ""),
        ("room_is_not_checked", "a host takes what it has room for", "problems.append(why_no_room(state, hostname, tasks[hostname], before))", 'problems.append("")'),
        ("no_time_for_placed", "PLACED times out", "yield PlacementQueued(state.last_number + 1, placement, _due(state, PLACED, settings))", "yield PlacementQueued(state.last_number + 1, placement, 0)"),
        ("hosts_are_not_reserved", "after all cycles a host is reserved", "    if run.ready_for_host_reservation:", "    if False:"),
        ("gangs_are_placed_in_part", "a gang that an engine places as a whole is placed as a whole", "        if not any(problems):", "        if not all(problems):"),
        ("room_is_checked_one_by_one", "placements of a gang count together", "tasks[hostname], before)", "tasks[hostname][-1:], before)"),
    ),
    *_of(
        "decide.together",
        ("gangs_do_not_connect", "placements of a gang stand or fall together", "group_of[first(other)] = first(one)", "group_of[first(other)] = first(other)"),
        ("part_of_a_gang_is_placed", "whole_gangs", "    if not settings.whole_gangs:\n        return \"\"", "    return \"\""),
        ("gangs_must_be_whole", "without whole_gangs, tasks of a gang are placed one by one", "    if not settings.whole_gangs:\n        return \"\"", ""),
    ),
    *_of(
        "decide.requeue",
        ("gangs_fall_apart", "whole_gangs", "if settings.whole_gangs else (run,)", "if False else (run,)"),
        ("gangs_go_back_together", "without whole_gangs, tasks go back one by one", "if settings.whole_gangs else (run,)", "if True else (run,)"),
        ("cycles_do_not_end", "after a cycle a task is PENDING", "PENDING if cycle_complete(run.attempts, settings) else READY", "READY"),
        ("no_host_reservation", "after all cycles a task asks for a host", "return settings.enable_host_reservation and", "return False and"),
        ("no_host_after_failures", "reserve_after_failures", "    if settings.reserve_after_failures and", "    if False and"),
        ("host_after_failures", "without reserve_after_failures a reported failure reserves no host", "    if settings.reserve_after_failures and", "    if"),
    ),
    *_of(
        "decide.expire",
        ("counters_stay_after_reserving", "after RESERVED the counters begin anew", '"reserving a host timed out", reset=True)', '"reserving a host timed out")'),
        ("preempting_for_ever", "PREEMPTING times out to RUNNING", 'return TaskMoved(run.task.id, run.task.mesos_id, RUNNING, "preempting timed out")', 'return TaskMoved(run.task.id, run.task.mesos_id, PREEMPTING, "preempting timed out")'),
    ),
    *_of(
        "decide.preemption",
        ("preempts_at_once", "only a pool that holds too much for some cycles is preempted", "return count > 0 and count >= settings.sustained_over_allocation_count", "return count > 0"),
        ("ready_stays", "READY tasks go back to their pool", "elif run.state in (READY, PLACING) and", "elif run.state in (PLACING,) and"),
        ("drained_candidates_move", "tasks of a draining host stay RUNNING", "        if reason == HOST_MAINTENANCE:", "        if False:"),
    ),
    *_of(
        "rules.ranking",
        ("highest_priority_first", "the lowest priority is preempted first", "STATES[one.state], one.task.priority,", "STATES[one.state], -one.task.priority,"),
        ("always_fewest_victims", "without fewest_victims the first shortage counts", "missing = left if fewest else wanted", "missing = left"),
        ("fewest_victims_ignored", "fewest_victims", "missing = left if fewest else wanted", "missing = wanted"),
    ),
    *_of(
        "decide.updates",
        ("unknown_runs_stay", "a run that Mesos does not know any more is LOST", '    "TASK_UNKNOWN": LOST,\n', ""),
        ("unreachable_runs_stay", "an unreachable run is LOST", '    "TASK_UNREACHABLE": LOST,\n', ""),
        ("purge_offset_never_goes_back", "the purge offset follows the events", "max((event.offset for event in command.events), default=state.acknowledged)", "max((event.offset for event in command.events), default=0) or state.acknowledged\n    acknowledged = max(acknowledged, state.acknowledged)"),
        ("updates_move_anything", "job managers move only what is launched", "if run is not None and update.state in UPDATES.get(run.state, ()):", "if run is not None and update.state != run.state:"),
    ),
    *_of(
        "decide.reserve",
        ("all_hosts_are_reserved", "one host in ten is reserved", "len(state.reserved) >= most", "False"),
        ("others_hosts_are_reserved", "a host is reserved for one task", "if state.reserved.get(one.hostname, run) is not run:", "if False:"),
        ("any_task_reserves", "only a RESERVED task reserves a host", "if run is None or run.state != RESERVED:", "if run is None:"),
        ("draining_hosts_are_reserved", "a host that drains is not reserved", "    if host.draining:", "    if False:"),
        ("small_hosts_are_reserved", "a host that is too small is not reserved", "    if not covers(", "    if False and not covers("),
    ),
    *_of(
        "decide.hosts",
        ("reserved_hosts_take_others", "a reserved host takes no other task", "    if reserved is not None and any(", "    if False and any("),
    ),
    *_of(
        "decide.reconcile",
        ("new_runs_are_lost", "a report ends nothing that is newer", "and run.since_ms < before_ms", ""),
        ("new_runs_are_killed", "a report ends nothing that is newer", "and run.known_ms < before_ms", ""),
        ("reports_have_no_age", "what is compared was there for some time", " - int(settings.reconciliation_age_s * 1_000)", ""),
        ("launching_runs_are_lost", "a host may not have yet what is launching", "frozenset({LAUNCHED, STARTING", "frozenset({LAUNCHING, LAUNCHED, STARTING"),
        ("hosts_keep_what_was_given_back", "a host should not have what is not launched there", "is None or run.state not in ON_HOST | {LAUNCHING}", "is None"),
        ("reports_of_hosts_end_nothing", "a run that its host does not have is lost", 'yield from _end(lost, LOST', 'yield from _end([], LOST'),
        ("unknown_runs_are_not_told", "a run that is not known is told", "if run_id not in state.task_of)", "if False)"),
    ),
    *_of(
        "decide.pools",
        ("slack_demand_is_idle", "a pool with pending tasks is busy", "return bool(pool.runs) or any(pool.queues.values()) or not all(fits(one, ZERO) for one in held)", "return False"),
        ("busy_leaf_gets_children", "a leaf with tasks gets no children", "    if parent.is_leaf and is_busy(parent):", "    if False:"),
        ("no_pool_before_the_capacity", "root has no bounds before the capacity is known", "    if state.capacity is None:", "    if False:"),
        ("dead_gangs_keep_a_pool", "gangs without members do not keep a pool", "        if state.members(state.gangs[number]):", "        if True:"),
    ),
    *_of(
        "rules.pools",
        ("shrinks_below_children", "a pool does not shrink below its children", "        if reserved > own.reservation:", "        if False:"),
        ("limit_below_children", "a limit is at least that of each child", "        if highest.kind(kind).limit > own.limit:", "        if False:"),
        ("reservations_exceed_parent", "reservations of children are at most the parent's", "        if reserved > above.reservation:", "        if False:"),
    ),
    *_of(
        "evolve.queues",
        ("gangs_are_admitted_in_part", "a gang is READY as a whole", "    for run in members:\n        enter(state, run, READY, 0, \"admitted\")", "    for run in members[:1]:\n        enter(state, run, READY, 0, \"admitted\")"),
    ),
    *_of(
        "evolve.runs",
        ("reservations_outlive_their_task", "a reservation ends with the state of its task", "        del state.reserved[run.reserved_host]\n        state.host_changed(run.reserved_host)\n        run.reserved_host = \"\"\n", "        return\n"),
    ),
    *_of(
        "rules.host_scores",
        ("scored_without_tasks", "hosts with fewer tasks are drained first", "        len(tasks),\n", ""),
        ("idle_hosts_last", "hosts without tasks are drained first", "return [*idle, *sorted(busy, key=lambda host: _cost(counted[host], highest, top))]", "return [*sorted(busy, key=lambda host: _cost(counted[host], highest, top)), *idle]"),
    ),
)  # fmt: skip
