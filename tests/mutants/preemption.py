"""Rules of preemption, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

PREEMPTION: Final = (
    *mutants_of(
        "cycle.victims",
        ("victims_of_higher_priority", "13: victims are of no higher priority", "if a.fact.priority <= highest.get(a.application.queue, -ANY_PRIORITY)\n            and", "if a.application.queue in highest\n            and"),
        ("bound_victims", "13: nothing bound to a node is a victim", "            and not is_protected(a.fact.tags)\n", ""),
        ("victims_below_guaranteed", "13: no victim takes its queue below guaranteed", "        if any(left.get(name, amount) < amount for name, amount in amounts):\n            return False\n", ""),
        ("oldest_victims", "13: the youngest go first", "-victim.asked_seq, -victim.at_ms", "victim.asked_seq, victim.at_ms"),
        ("originators_go_first", "13: originators only as a last resort", "fact.originator, 0, ", "not fact.originator, 0, "),
        ("victims_that_opted_out_first", "13: those that allow it go first", "return (not fact.allow_preempt_self, fact.originator, 0", "return (fact.allow_preempt_self, fact.originator, 0"),
        ("more_victims_than_needed", "13: the cheapest set that makes the ask fit", "            if self.suffices(node, shortfall, rest):", "            if False:"),
        ("victims_of_its_own_queue", "13: victims are in other leaf queues", "                if child is not below:", "                if True:"),
        ("bound_preempt_the_reluctant", "13: a bound ask preempts first what allows it", "    return (opted_out, originator, victim.fact.priority, *age)", "    return (False, originator, victim.fact.priority, *age)"),
        ("bound_preempt_originators", "13: a bound ask preempts originators last", "    return (opted_out, originator, victim.fact.priority, *age)", "    return (opted_out, False, victim.fact.priority, *age)"),
        ("own_offset_of_the_meeting_queue", "13: priorities are compared below the queue where ask and victim meet", "yield place, priority, child", "yield place, priority + priority_offset(queue.settings.properties), child"),
        ("victims_offsets_ignored", "13: a victim's priority is seen through offsets", "        else:\n            highest -= offset\n", ""),
        ("what_preempted_is_preempted", "13: what was placed by preemption stays for ten minutes", "            and not (a.by_preemption and a.at_ms > self._placed_after_ms)\n", ""),
        ("priority_fence_hides_nothing", "13: priorities below a fence do not count outside", "            highest = ANY_PRIORITY  #", "            highest -= offset  #"),
        ("full_maximum_needs_no_victims", "13: victims make room under maxima above, too", "        return not shortfall and not any(over.values())\n", "        return not shortfall\n"),
    ),
    *mutants_of(
        "decide.quota",
        ("quota_takes_too_much", "13: a queue gives back no more than needed", "    return QuotaVictims(_needed(chosen, excess), short,", "    return QuotaVictims(chosen, short,"),
        ("quota_takes_guaranteed", "13: a lowered maximum takes nothing below guaranteed", "and take(victim, _guards(victim, queue), spare):", "and take(victim, (), spare):"),
        ("quota_ignores_releases_under_way", "13: releases under way count for a queue above its maximum", "            lessen(excess, allocation.fact.resource)\n    if not excess:", "            pass\n    if not excess:"),
    ),
    *mutants_of(
        "decide.quota",
        ("quota_clock_goes_on", "13: another maximum or delay starts the clock again", "elif excess is None or (excess.max, excess.delay_ms) != (maximum, delay_ms):", "elif excess is None:"),
        ("quota_preemption_without_switch", "13: only where the partition enables quota preemption", "    if not partition.settings.quota_preemption_enabled:\n        return 0\n", ""),
        ("quota_parents_first", "13: a queue below gives back before the queue above", "in reversed(list(queue.below())):", "in queue.below():"),
    ),
    *mutants_of(
        "cycle.preempt",
        ("preemption_where_it_is_off", "13: only where the partition enables it, also while the RM is asked", "    if not (bound or partition.settings.preemption_enabled):", "    if False:"),
        ("threshold_ignored", "13: threshold", "    if load < partition.settings.preemption_threshold:", "    if False:"),
        ("bound_need_preemption_enabled", "13: a bound ask preempts also where preemption is off", "    if not (bound or partition.settings.preemption_enabled):", "    if not partition.settings.preemption_enabled:"),
        ("preempts_above_its_guaranteed", "13: an ask preempts for what is guaranteed to its queue, no more", "                    if queue is own:\n", "                    if False:\n"),
        ("preempts_without_guaranteed", "13: an ask preempts only for what is guaranteed to it", "    if guaranteed_by is None:", "    if False:"),
        ("bound_go_above_the_maximum", "13: a bound ask keeps to the maxima of its queues", '    if full is not None:\n        return f"queue {full.path} is', '    if False:\n        return f"queue {full.path} is'),
        ("bound_preempt_higher_priority", "13: nothing of higher priority goes for a bound ask", "QueueEligibility(pending.ask.priority, (), 0)", 'QueueEligibility(float("inf"), (), 0)'),
    ),
    *mutants_of(
        "index.preemption",
        ("preempts_twice", "13: once per allocation of an ask", "and ask.pending and ask.preemption is None and not index.awaits_place(ask):", "and ask.pending and not index.awaits_place(ask):"),
        ("preempts_once", "13: an ask preempts for each of its allocations", "and ask.pending and ask.preemption is None and not", "and ask.pending and not ask.preempted_at_ms and not"),
        ("refused_tries_at_once", "13: what was refused is tried again after the interval", "max(first_ms, refused_ms + interval_ms)", "first_ms"),
    ),
    *mutants_of(
        "cycle.preempt",
        ("used_up_never_preempts", "13: a pass whose budget is used up preempts for an ask long due", "    used_up, budget = budget <= 0, max(1, budget)", "    used_up = budget <= 0"),
        ("used_up_preempts_at_once", "13: a pass whose budget is used up leaves preemption to the next", "        if used_up and not is_put_off_for_long(", "        if False and not is_put_off_for_long("),
    ),
    *mutants_of(
        "index.preemption",
        ("bound_try_again_at_once", "13: what was refused to a bound ask is tried again after the interval", "    if refused_ms is not None and refused_ms + interval_ms > now_ms:", "    if False:"),
        ("bound_preempt_once", "13: an ask that is bound to a node preempts for each of its allocations", "ask.preemption is not None or demand is None", "ask.preempted_at_ms or demand is None"),
        ("bound_preempt_bound", "13: a node reserved for a bound ask is not taken by another", "        if node.reservation is not None and node.reservation is not ask and bound_to(node.reservation):", "        if False:"),
    ),
    *mutants_of(
        "evolve.asks",
        ("asks_that_may_not_preempt", "13: only an ask with allowPreemptOther preempts", "    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, seq, state.now_ms)\n", "    ask = __import__('msgspec').structs.replace(ask, allow_preempt_other=True)\n    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, seq, state.now_ms)\n"),
    ),
    *mutants_of(
        "evolve.preemption",
        ("set_aside_for_the_interval", "13: asks that found nodes set aside try again when one no longer is", "    for path, like in partition.set_aside:", "    for path, like in ():"),
        ("quota_is_not_held", "13: with the node, the place under maxima and limits is kept", "    if (preemption.nodes or preemption.node.reservation is pending) and not preemption.held:", "    if False:"),
    ),
    *mutants_of(
        "decide.expire",
        ("reserved_for_ever", "13: preemption that does not help in time ends", "    if preemption.node.reservation is preemption.pending:\n", "    if False:\n"),
    ),
)  # fmt: skip
