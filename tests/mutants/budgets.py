"""Rules of budgets and of loans, each broken on purpose (semantics sections 25 and 27)."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of as _of

BUDGETS: Final = (
    *_of(
        "state.budgets",
        ("use_before_the_change_is_lost", "25: used is amount * time of all allocations", "_gain(self.past, self.used, min(now_ms, self.until_ms) - self.at_ms)", "pass"),
        ("use_counts_in_the_old_period", "25: use counts in the period in which it was", "_gain(self.past, self.used, min(now_ms, self.until_ms) - self.at_ms)", "_gain(self.past, self.used, now_ms - self.at_ms)"),
        ("use_after_the_end_is_lost", "25: use counts in the period in which it was, whenever the tick comes", "_gain(self.later, self.used, now_ms - max(self.at_ms, begins_ms))", "pass"),
        ("whole_periods_count_in_the_next", "25: use counts in the period in which it was, whenever the tick comes", "if begins_ms != self.later_ms:  # whole periods have passed", "if not self.later_ms:"),
        ("the_past_stays", "25: the next period begins", "self.past = self.later if self.later_ms == period.from_ms else {}", "pass"),
        ("other_amounts_forget", "25: a budget with other amounts keeps what was used", "            self.settings, self.amounts = settings, amounts_of(settings)", "            self.settings, self.amounts, self.past = settings, amounts_of(settings), {}"),
        ("beyond_the_period_is_committed", "25: committed is what may still be used until the period ends", "times * min(end_ms, self._planned_until_ms)", "times * end_ms"),
        ("nothing_is_committed", "25: an ask is admitted if used and committed are within the budget", "- self.used_of(name) - self.committed_of(name)", "- self.used_of(name)"),
        ("nothing_is_used", "25: an ask is admitted if used and committed are within the budget", "- self.used_of(name) - self.committed_of(name)", "- self.committed_of(name)"),
        ("what_is_held_is_free", "25: an ask is admitted if held is within the budget", "- self.committed_of(name) - held.get(name, 0)", "- self.committed_of(name)"),
        ("what_is_over_is_committed", "25: an allocation whose bound is over commits nothing", "            if end_ms in self._ends:\n                self._weigh(end_ms, self._ends.pop(end_ms), -1)", "            self._ends.pop(end_ms, None)"),
        ("exactly_the_budget_is_too_much", "25: an ask is admitted if all is within the budget", "need <= self.left_of(name, held)", "need < self.left_of(name, held)"),
        ("a_registration_forgets", "25: what was used outlives the registration", "        self._idle[budget.key] = None\n        for", "        self.forget(budget.key)\n        if not self._idle:\n            return\n        for"),
    ),
    *_of(
        "rules.budget",
        ("no_bound_costs_nothing", "25: without a bound an ask costs the least there is", "lasts_ms = max(1, bound_ms)", "lasts_ms = bound_ms"),
        ("weeks_begin_on_sunday", "25: weeks begin on Monday", "_MONDAY: Final = 4", "_MONDAY: Final = 3"),
        ("no_leap_years", "25: months of a calendar", "year // 4 - year // 100 + year // 400", "year // 4"),
        ("clocks_show_utc", "25: by the clocks of a time zone", "at_ms = local_ms - _offset(budget, at_ms)", "at_ms = local_ms"),
    ),
    *_of(
        "costs",
        ("placeholders_have_no_bound", "25: a placeholder has the bounds of its application and its queue", "    properties = [above.settings", "    return max(0, ask.execution_timeout_ms)\n    properties = [above.settings"),
        ("a_gang_is_admitted_piece_by_piece", "25: a gang is admitted whole", "add(total, group.min_resource, group.coming)", "add(total, group.min_resource)"),
        ("the_rest_of_a_gang_waits", "25: the other placeholders need nothing", "if not application.allocations:", "if True:"),
    ),
    *_of(
        "evolve.budgets",
        ("a_question_commits_nothing", "25: a question commits from the last moment of its answer on", "    if until_ms > 0:\n        for budget", "    if until_ms < 0:\n        for budget"),
        ("ends_are_seen_anew", "25: when an allocation ends is seen once", "    if times > 0 and not allocation.until_ms:", "    if times > 0 and allocation.until_ms <= 0:"),
        ("budgets_of_parents_do_not_count", "25: within the budget of each queue on the path to root", "queue.budgets = (*own, *above.budgets) if above is not None else own", "queue.budgets = own"),
    ),
    *_of(
        "index.build",
        ("nodes_are_kept_for_the_demand_of_before", "25: an ask that keeps a node moves to a queue with a budget", "        demand_changed(index, ask, demand)", "        assert demand"),
    ),
    *_of(
        "index.limits",
        ("a_place_is_held_twice", "25: held is the cost of asks for which others are preempted", "budget.has_room(cost, NOTHING_HELD if has_place else budget.held)", "budget.has_room(cost, budget.held)"),
        ("budgets_bind_nobody", "25: an ask is admitted within the budget", "        if not budget.has_room(cost, NOTHING_HELD if has_place else budget.held):\n            return budget", "        continue"),
    ),
    *_of(
        "index.updates",
        ("nobody_is_woken_by_an_end", "25: it is looked at again when work of the queue ends", "    if application.trackers or application.queue.budgets:\n        wake_at(index, (*application.trackers, *application.queue.budgets))", "    if application.trackers:\n        wake_at(index, application.trackers)"),
        ("nobody_is_woken_by_a_period", "25: it is looked at again when the period begins", "    wake_at(index, (budget,))\n", ""),
    ),
)  # fmt: skip

LOANS: Final = (
    *_of(
        "decide.loans",
        ("the_lender_keeps_what_it_lends", "27: the lender has so much less", "((key.lender, -times), (key.borrower, times))", "((key.borrower, times),)"),
        ("nothing_is_given_back", "27: both queues have what they have without it", "    if partition is not None:\n        yield from change_queues(", "    if partition is not None:\n        return\n        yield from change_queues("),
        ("no_clock_begins_with_a_loan", "27: what is above a maximum then is given back by quota preemption", "    yield from settle_quotas(partition, queues, now_ms)", "    return"),
        ("configurations_forget_loans", "27: what is lent is added and taken away", "if key.partition == partition.name and path in (key.lender, key.borrower):", "if False:"),
        ("guarantees_are_lent_as_maxima", "27: amounts of the maximum, or of its guarantee", 'KINDS = {False: "max", True: "guaranteed"}', 'KINDS = {False: "max", True: "max"}'),
        ("loans_beyond_a_window", "27: it ends when a window leaves the lender less than it lends", "and _lends_more(partition, path, settings, loan):", "and False:"),
        ("loans_all_end_with_a_window", "27: only as many loans end as have no room", "and _lends_more(partition, path, settings, loan):", "and True:"),
        ("loans_of_queues_that_are_gone", "27: it ends when a configuration has one of its queues no more", "        if path not in settings:\n            yield", "        if path not in settings:\n            return\n            yield"),
        ("more_is_lent_than_there_is", "27: a queue lends no more than it has", "        elif amount > left:", "        elif amount > left and amount < 0:"),
        ("guarantees_go_anywhere", "27: a guarantee, between queues of one parent", "    if loan.guaranteed and key.lender", "    if not loan.guaranteed and key.partition == '' and key.lender"),
        ("other_loans_do_not_count", "27: a queue lends no more than it has", "                lent[name] = lent.get(name, 0) + amount", "                lent[name] = 0"),
    ),
    *_of(
        "evolve.rms",
        ("registrations_end_no_loan_any_more", "27: a loan outlives registrations", "    for key, loan in state.loans.items():\n        state.timers.put(timeouts.of_loan(key, loan))\n", ""),
    ),
    *_of(
        "decide.administer",
        ("loans_need_one_right", "27: an operator who may administer both queues", "        else:\n            yield from problems_of_access(queue, act.command)\n    if None in found", "        elif path == key.lender:\n            yield from problems_of_access(queue, act.command)\n    if None in found"),
        ("anybody_ends_loans", "27: an operator who may administer one of the two queues ends it", "    if all(refused):", "    if False:"),
        ("loans_are_lent_on", "27: a queue lends no more than it has without what it borrows", "    settings[key.lender] = without_borrowed(act.partition, key.lender, settings[key.lender])\n", ""),
        ("loans_twice", "27: at most one loan from one queue to another", "    if key in act.state.loans:\n        yield Problem(f\"queue {key.lender} lends", "    if False:\n        yield Problem(f\"queue {key.lender} lends"),
    ),
)  # fmt: skip
