"""Rules of run times and backfill, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

BACKFILL: Final = (
    *mutants_of(
        "rules.runtime",
        (
            "bounds_the_largest",
            "22: the bound is the smallest of those given",
            "    bound_ms = min(bounds, default=0)",
            "    bound_ms = max(bounds, default=0)",
        ),
        (
            "bounds_of_queues_always",
            "22: the default of the queue is for asks that give no bound",
            "        if not bounds:\n",
            "        if True:\n",
        ),
        (
            "bounds_of_placeholders",
            "22: a placeholder has its own time-out alone",
            "    if not placeholder:\n",
            "    if True:\n",
        ),
        (
            "bounds_unreadable_untold",
            "22: a tag that cannot be read is told",
            '                    ignored.append(f"tag {MAX_RUNTIME}',
            '                    str(f"tag {MAX_RUNTIME}',
        ),
        (
            "expectations_of_few_runs",
            "22: an expectation takes five runs",
            "        if len(ran_ms) >= RUNS_NEEDED:",
            "        if len(ran_ms) >= RUNS_NEEDED + 1:",
        ),
        (
            "expectations_of_nobody",
            "22: the last runs of the user are the expectation",
            "            return min(middle_ms, bound_ms) if bound_ms else middle_ms",
            "            return bound_ms",
        ),
    ),
    *mutants_of(
        "rules.runtime",
        (
            "bounds_of_running_by_default",
            "22: what runs already may run as long as any ask of its queue",
            "    return by_tags or max(duration_in(path_to_root, DEFAULT), duration_in(path_to_root, MOST))",
            "    return by_tags or duration_in(path_to_root, DEFAULT)",
        ),
        (
            "bounds_of_running_without_tags",
            "22: what runs already is bound by its tags",
            "    return by_tags or max(duration_in",
            "    return max(duration_in",
        ),
    ),
    *mutants_of(
        "decide.allocation",
        (
            "bounds_end_with_a_report",
            "22: what the RM reports as running has a bound",
            "        allocation = replace(allocation, execution_timeout_ms=bound_ms)",
            "        pass",
        ),
    ),
    *mutants_of(
        "decide.ask",
        (
            "bounds_begin_anew_with_a_size",
            "22: another size of an allocation keeps its end",
            "    left_ms = max(1, after(running.at_ms, timeout_ms) - now_ms) if timeout_ms > 0 else 0",
            "    left_ms = timeout_ms",
        ),
        (
            "bounds_above_most",
            "22: asks above `runtime.most` are rejected",
            "    if not most_ms or 0 < bound_ms <= most_ms:",
            "    if not most_ms or 0 <= bound_ms:",
        ),
        (
            "bounds_none_above_most",
            "22: asks without a bound are rejected where there is a most",
            "    if not most_ms or 0 < bound_ms <= most_ms:",
            "    if not most_ms or 0 <= bound_ms <= most_ms:",
        ),
        (
            "bounds_not_enforced",
            "22: the bound is enforced as a time-out",
            "            ask = replace(ask, execution_timeout_ms=bound_ms)",
            "            pass",
        ),
    ),
    *mutants_of(
        "cycle.promises",
        (
            "promises_of_the_last_end",
            "22: the promised time is the first with room",
            "        if all(less <= 0 for less in lacking.values()):",
            "        if all(less < 0 for less in lacking.values()):",
        ),
        (
            "promises_without_bounds",
            "22: without bounds nothing is promised",
            "    bound_ms = after(allocation.at_ms, timeout_ms) if timeout_ms > 0 else NEVER_MS",
            "    bound_ms = after(allocation.at_ms, max(timeout_ms, 600_000))",
        ),
        (
            "promises_of_the_closest",
            "22: the node is reserved that has room first",
            "            rank = (avoided, node.id == but, at_ms, lacking",
            "            rank = (avoided, node.id == but, 0, lacking",
        ),
        (
            "promises_of_gangs_alone",
            "22: placeholders are promised the latest time of their nodes",
            "    if not pending.ask.placeholder:\n",
            "    if True:\n",
        ),
        (
            "promises_stand_when_late",
            "22: a release that is late moves the promise",
            "    return bound_ms if bound_ms >= now_ms else now_ms + PROMISE_CHANGES_MS",
            "    return bound_ms",
        ),
    ),
    *mutants_of(
        "cycle.backfill",
        (
            "backfill_beyond_the_start",
            "22: what is placed ends before the reserved ask can start",
            "    until_ms = min(starts_ms, promise.promised_ms)",
            "    until_ms = starts_ms + 600_000",
        ),
        (
            "backfill_of_all_that_is_free",
            "22: without a bound in time the reserved ask has to fit all the same",
            "    spare = nodes.after(index.demand_of(pending), later)",
            "    spare = later",
        ),
        (
            "backfill_of_the_spare_alone",
            "22: what ends in time may use what is free",
            "    return Hole(node, until_ms, available, tuple",
            "    return Hole(node, 0, available, tuple",
        ),
        (
            "backfill_above_quotas",
            "22: what reserved asks need under maxima is left",
            "    return index.reserved_nodes.leaves_room(pending)",
            "    return True",
        ),
        (
            "backfill_in_the_order_of_queues",
            "22: with `shortest` the shortest expectation goes first",
            "    return (ask_class.demand.expectation, *rank) if shortest else rank",
            "    return rank",
        ),
    ),
    *mutants_of(
        "index.backfill",
        (
            "backfill_windows_stay",
            "22: what a reserved node has left changes with what runs there",
            "                self.changed[node_id] = None\n\n    def _nodes_of",
            "                self.changed.pop(node_id, None)\n\n    def _nodes_of",
        ),
        (
            "backfill_windows_without_time",
            "22: a release that is late moves the promise",
            "            if self.again_ms.get(node_id) == at_ms:\n",
            "            if False:\n",
        ),
    ),
    *mutants_of(
        "cycle.backfill",
        (
            "backfill_of_known_asks_alone",
            "22: an ask that has come since may be placed",
            "    windows.rouse(candidates.new, now_ms)\n",
            "",
        ),
    ),
    *mutants_of(
        "timeouts",
        (
            "promises_time_out",
            "22: a reservation is kept until its promised time",
            "max(node.reserved_ms, node.promise.promised_ms)",
            "node.reserved_ms",
        ),
    ),
    *mutants_of(
        "evolve.asks",
        (
            "expectations_above_bounds",
            "22: the expectation of a tag orders",
            "    if by_tag := runtime.expected_by_tags(ask.tags, application.tags):",
            "    if by_tag := 0:",
        ),
    ),
    *mutants_of(
        "evolve.allocations",
        (
            "runs_are_not_learnt",
            "22: run times are learnt",
            "    if fact.placeholder or allocation.releasing not in (0, facts.TIMEOUT):",
            "    if True:",
        ),
    ),
)
