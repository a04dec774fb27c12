"""Rules of Peloton's resource manager, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import Mutant

SECTION: Final = "peloton"  # in place of the number of a section: docs/peloton.md has the rules


def _of(module: str, *broken: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    return tuple(
        Mutant(f"peloton_{name}", f"{SECTION}: {rule}", f"remuda_peloton.{module}", text, by)
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
        ("rounds_end_early", "a pool with a tiny share gets what it needs", "return _fill(level, share, got, unmet, left)", "return left"),
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
        "decide.apply_pools",
        ("ended_gangs_keep_pools", "gangs without members do not keep a pool", "        yield from drop_ended(state, pool)\n", "        yield from ()\n"),
        ("applied_without_entitlements", "entitlements follow the pools", "    if changes:\n", "    if False:\n"),
    ),
    *_of(
        "decide.apply_pools",
        ("applied_children_are_not_checked", "pools that are applied are not below their children", "            check_own_children(", "            0 and check_own_children("),
        ("applied_pools_are_not_checked", "each pool that is applied is checked", "for check in (check_pool, check_controller_limit, check_numbers):", "for check in ():"),
        ("controllers_above_100", "a controller limit is at most all", "check_controller_limit, check_numbers):", "check_numbers):"),
        ("amounts_without_end", "an amount is a number", "(check_pool, check_controller_limit, check_numbers)", "(check_pool, check_controller_limit)"),
        ("busy_pools_are_deleted", "a pool with tasks is not deleted by a description", "        if has_tasks(pool):\n            raise", "        if False:\n            raise"),
        ("busy_pools_get_children", "a leaf with tasks gets no children by a description", "        if has_tasks(pool) and path in parents:", "        if False:"),
        ("busy_pools_do_not_change", "a pool with tasks may change", "if not pool.is_leaf or (path in wanted and path not in parents):", "if not pool.is_leaf:"),
        ("deleted_in_any_order", "the lowest pools are deleted first", "tuple(reversed(deleted))", "tuple(deleted)"),
        ("undescribed_pools_stay", "pools that are not described are deleted", "for path, pool in existing.items() if path not in wanted]", "for path, pool in existing.items() if False]"),
        ("described_in_order_only", "the order of the description does not matter", 'sorted(described, key=lambda one: one.path.count("/"))', "described"),
        ("described_twice", "a pool is described once", "    if one.path in wanted:", "    if False:"),
        ("too_deep", "a path has a bounded depth", 'if not slash or one.path.count("/") > POOL_DEPTH:', "if not slash:"),
        ("relative_paths", "a path begins with a slash", 'if not slash or one.path.count("/") > POOL_DEPTH:', 'if one.path.count("/") > POOL_DEPTH:'),
        ("orphaned_pools", "the pool above is described", "    if above and above not in wanted:", "    if False:"),
        ("applied_pools_change_their_id", "a pool keeps its ID", "        if before is not None:\n            with_place", "        if False:\n            with_place"),
        ("what_stays_is_changed", "what stays as it is does not change", "        if path not in existing or config != existing[path].config\n", ""),
        ("fewer_hosts_stop_changes", "pools below root that stay may have more than root", '        children.pop("", None)', "        pass"),
        ("root_is_no_bound", "pools below root have at most what root has", 'if all(path in existing and existing[path].config == wanted[path] for path in children.get("", ())):', "if True:"),
    ),
    *_of(
        "decide.admission",
        ("refused_gang_partly_stays", "a gang is enqueued as a whole", "        if refused:\n", "        if refused and all(one.code != GANG_FAILED for one in refused):\n"),
        ("known_run_is_enqueued", "a run that is known is refused", "    if task.mesos_id in state.task_of:", "    if False:"),
        ("work_for_inner_pools", "gangs go to leaves", "        if not pool.is_leaf:", "        if False:"),
    ),
    *_of(
        "decide.placements",
        ("youngest_first", "the oldest gang of any type is dequeued", "return min((next(iter(queue)) for queue in state.ready.values()), default=None)", "return max((next(iter(queue)) for queue in state.ready.values()), default=None)"),
        ("empty_gangs_are_handed_out", "a gang without members is not handed out", "        if members:\n            answer.append(tuple(handed", "        if True:\n            answer.append(tuple(handed"),
        ("empty_placements_are_kept", "a placement without tasks is dropped", "        if tasks:\n            answer.append(msgspec", "        if True:\n            answer.append(msgspec"),
        ("former_run_returns_the_present", "a failed placement of a former run returns nothing", "or (run_id and run.task.mesos_id != run_id)", ""),
        ("room_is_not_checked", "a host takes what it has room for", " or why_no_room(state, hostname, tasks[hostname], before)", ""),
        ("no_time_for_placed", "PLACED times out", "yield PlacementQueued(state.last_number + 1, placement, due_ms(state.now_ms, PLACED, settings))", "yield PlacementQueued(state.last_number + 1, placement, 0)"),
        ("hosts_are_not_reserved", "after all cycles a host is reserved", "    if run.ready_for_host_reservation:", "    if False:"),
        ("gangs_are_placed_in_part", "a gang that an engine places as a whole is placed as a whole", "        if not any(problems):", "        if not all(problems):"),
        ("room_is_checked_one_by_one", "placements of a gang count together", "tasks[hostname], before)", "tasks[hostname][-1:], before)"),
    ),
    *_of(
        "decide.placements",
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
        "decide.requeue",
        ("late_timers_count", "the time of a state that is over does nothing", "if run is not None and run.due_ms == due_ms:", "if run is not None and run.due_ms:"),
        ("counters_stay_after_reserving", "after RESERVED the counters begin anew", '"reserving a host timed out", reset=True)', '"reserving a host timed out")'),
        ("preempting_for_ever", "PREEMPTING times out to RUNNING", 'return TaskMoved(run.task.id, run.task.mesos_id, RUNNING, "preempting timed out")', 'return TaskMoved(run.task.id, run.task.mesos_id, PREEMPTING, "preempting timed out")'),
    ),
    *_of(
        "decide.preemption",
        ("preempts_at_once", "only a pool that holds too much for some cycles is preempted", "return count > 0 and count >= settings.sustained_over_allocation_count", "return count > 0"),
        ("all_states_always", "without preempt_all_states what is placed or launched is not preempted", "return ALL_STATES if settings.preempt_all_states else STATES", "return ALL_STATES"),
        ("all_states_never", "preempt_all_states", "return ALL_STATES if settings.preempt_all_states else STATES", "return STATES"),
        ("placed_is_asked_for", "what no job manager has goes back to its pool", "        if run.state in AT_JOB_MANAGER:", "        if run.state not in STATES[:2]:"),
        ("launched_is_taken_back", "what a job manager has waits for it", "        if run.state in AT_JOB_MANAGER:", "        if run.state == RUNNING:"),
        ("launching_becomes_preempting", "a candidate that does not run keeps its state", "        if run.state == RUNNING:\n            yield", "        if True:\n            yield"),
        ("returned_is_asked_for", "a candidate that went back is dropped", "if run is None or run.state not in asked_for:", "if run is None:"),
        ("drained_candidates_move", "tasks of a draining host stay RUNNING", "        if reason == HOST_MAINTENANCE:", "        if False:"),
    ),
    *_of(
        "rules.ranking",
        ("ready_stays", "READY tasks go back to their pool", "STATES: Final = (READY, PLACING, RUNNING)", "STATES: Final = (PLACING, RUNNING)"),
        ("launched_first", "the least work is lost first", "(READY, PLACING, RESERVED, PLACED, LAUNCHING, LAUNCHED, STARTING, RUNNING)", "(READY, PLACING, LAUNCHED, LAUNCHING, RESERVED, PLACED, STARTING, RUNNING)"),
        ("reserved_before_placing", "what is RESERVED has waited longer", "(READY, PLACING, RESERVED,", "(READY, RESERVED, PLACING,"),
        ("highest_priority_first", "the lowest priority is preempted first", "index(one.state), one.task.priority,", "index(one.state), -one.task.priority,"),
        ("always_fewest_victims", "without fewest_victims the first shortage counts", "missing = left if fewest else wanted", "missing = left"),
        ("fewest_victims_ignored", "fewest_victims", "missing = left if fewest else wanted", "missing = wanted"),
    ),
    *_of(
        "decide.updates",
        ("unknown_runs_stay", "a run that Mesos does not know any more is LOST", '    "TASK_UNKNOWN": LOST,\n', ""),
        ("unreachable_runs_stay", "an unreachable run is LOST", '    "TASK_UNREACHABLE": LOST,\n', ""),
        ("purge_offset_never_goes_back", "the purge offset follows the events", "max((event.offset for event in command.events), default=state.acknowledged)", "max((event.offset for event in command.events), default=0) or state.acknowledged\n    acknowledged = max(acknowledged, state.acknowledged)"),
        ("orphans_do_not_start", "a replaced run that begins to run is RUNNING", " or state.orphans.get(event.run_id)\n        if to", "\n        if to"),
        ("late_runs_keep_draining_hosts", "a task that begins to run on a draining host is preempted", "    if run.state == RUNNING and host is not None and host.draining:", "    if False:"),
        ("any_host_drains", "a task stays on a host that does not drain", "host is not None and host.draining:", "host is not None:"),
        ("updates_move_anything", "job managers move only what is launched", "if run is not None and update.state in UPDATES.get(run.state, ()):", "if run is not None and update.state != run.state:"),
    ),
    *_of(
        "decide.hosts",
        ("all_hosts_are_reserved", "one host in ten is reserved", "len(state.reserved) >= most", "False"),
        ("others_hosts_are_reserved", "a host is reserved for one task", "if state.reserved.get(one.hostname, run) is not run:", "if False:"),
        ("any_task_reserves", "only a RESERVED task reserves a host", "if run is None or run.state != RESERVED:", "if run is None:"),
        ("draining_hosts_are_reserved", "a host that drains is not reserved", '    if host.draining:\n        return f"{one.hostname} drains"', '    if False:\n        return ""'),
        ("small_hosts_are_reserved", "a host that is too small is not reserved", "    if not covers(", "    if False and not covers("),
    ),
    *_of(
        "decide.hosts",
        ("recovered_without_time", "a recovered run is PREEMPTING for its time", "            if at_ms := due_ms(state.now_ms, one.state, settings):", "            if at_ms := 0:"),
        ("named_hosts_are_full", "a task takes room when it is placed", "    runs = state.runs_on(hostname)\n    room", "    runs = list(state.hosts.get(hostname, {}).values())\n    room"),
        ("reserved_hosts_take_others", "a reserved host takes no other task", "    if reserved is not None and any(", "    if False and any("),
    ),
    *_of(
        "decide.updates",
        ("new_runs_are_lost", "a report ends nothing that is newer", "and run.since_ms < before_ms", ""),
        ("new_runs_are_killed", "a report ends nothing that is newer", "and run.known_ms < before_ms", ""),
        ("reports_have_no_age", "what is compared was there for some time", " - int(settings.reconciliation_age_s * 1_000)", ""),
        ("hosts_keep_what_was_given_back", "a host should not have what is not launched there", "is None or run.state not in ON_HOST | {LAUNCHING}", "is None"),
        ("reports_of_hosts_end_nothing", "a run that its host does not have is lost", 'yield from _end(lost, LOST', 'yield from _end([], LOST'),
        ("unknown_runs_are_not_told", "a run that is not known is told", "if run_id not in state.task_of)", "if False)"),
        ("ranges_are_whole_pools", "a report of a range ends nothing outside of it", "if (run_id := run.task.mesos_id) in ranges and", "if (run_id := run.task.mesos_id) and"),
    ),
    *_of(
        "rules.task",
        ("no_id_is_an_id", "a task has an ID", "    if not task.id or not task.mesos_id:", "    if False:"),
    ),
    *_of(
        "rules.lifecycle",
        ("starting_for_ever", "a recovered run that begins to run is RUNNING", "    STARTING: frozenset({RUNNING}),\n", ""),
        ("launching_runs_are_lost", "a host may not have yet what is launching", "ON_HOST: Final = frozenset({LAUNCHED, STARTING", "ON_HOST: Final = frozenset({LAUNCHING, LAUNCHED, STARTING"),
    ),
    *_of(
        "rules.ranges",
        ("ranges_without_their_first", "a range begins with its first ID", "return first <= one and", "return first < one and"),
        ("ranges_with_their_end", "a range ends below its second ID", "one < below)", "one <= below)"),
    ),
    *_of(
        "decide.pools",
        ("replaced_runs_keep_no_pool", "a pool with an allocation of a replaced run is not deleted by a description", "    return bool(pool.runs) or not fits(pool.allocation.total, ZERO)", "    return bool(pool.runs)"),
        ("pools_have_relative_paths", "a path is absolute", "        check_path(command.path)\n", "        pass\n"),
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
        "evolve",
        ("gangs_are_admitted_in_part", "a gang is READY as a whole", "    for run in members:\n        enter(state, run, READY, 0, \"admitted\")", "    for run in members[:1]:\n        enter(state, run, READY, 0, \"admitted\")"),
    ),
    *_of(
        "evolve",
        ("reservations_outlive_their_task", "a reservation ends with the state of its task", "        del state.reserved[run.reserved_host]\n        state.host_changed(run.reserved_host)\n        run.reserved_host = \"\"\n", "        return\n"),
    ),
    *_of(
        "rules.ranking",
        ("scored_without_tasks", "hosts with fewer tasks are drained first", "        len(tasks),\n", ""),
        ("scored_without_controllers", "hosts with fewer controllers are drained first", "        sum(task.controller for task in tasks),\n", ""),
        ("scored_without_priorities", "hosts with lower priorities are drained first", "        sum(task.priority * weights[task.pool_id] for task in tasks),\n", ""),
        ("scored_without_run_times", "hosts whose tasks began later are drained first", "        sum(run_times) / len(run_times) if run_times else 0.0,\n", ""),
        ("stateless_hosts_are_idle", "a host with only stateless tasks is not idle", "idle = [host for host in hosts if not tasks.get(host)]", "idle = [host for host in hosts if not counted[host]]"),
        ("non_preemptible_hosts_are_drained", "a host with a task that is not preemptible is left out", " and all(task.preemptible for task in counted[host])", ""),
        ("idle_hosts_last", "hosts without tasks are drained first", "return [*idle, *sorted(busy, key=lambda host: _cost(counted[host], highest, top))]", "return [*sorted(busy, key=lambda host: _cost(counted[host], highest, top)), *idle]"),
    ),
)  # fmt: skip
