"""Rules of scheduling, each broken on purpose. A golden scenario or a law has to notice every one of them.

A new rule comes with its mutants. `rule` names the section of docs/semantics.md.
"""

from __future__ import annotations

from typing import Final

from .backfill import BACKFILL
from .budgets import BUDGETS, LOANS
from .devices import DEVICES
from .forecasts import FORECASTS
from .leaving import LEAVING
from .ledger import LEDGER
from .memory import MEMORY
from .mutate import Mutant
from .mutate import mutants_of as _of
from .peloton import PELOTON
from .predicate_classes import PREDICATE_CLASSES
from .preemption import PREEMPTION
from .recovery import EXPLAIN, RECOVERY
from .topology import TOPOLOGY
from .windows import WINDOWS

SHARES: Final = (
    *_of(
        "rules.share",
        ("share_not_dominant", "2: the share of a queue is its highest", "if share > highest:", "if highest == 0.0:"),
        ("zero_due_counts_nothing", "2: what is used although nothing is due counts 1", "else 1.0 / one if amount else 0.0\n        if share", "else 0.0\n        if share"),
        ("shares_low_to_high", "2: lists of shares are sorted high to low", "shares.append(amount / whole if whole else 1.0)\n    shares.sort(reverse=True)", "shares.append(amount / whole if whole else 1.0)\n    shares.sort()"),
    ),
    *_of(
        "state.application",
        ("total_before_guaranteed", "2: guaranteed, else the maximum, else the total", "{**total, **nearest, **self.settings.guaranteed}", "{**self.settings.guaranteed, **nearest, **total}"),
        ("own_guaranteed_ignored", "2: a share is measured by guaranteed", "{**total, **nearest, **self.settings.guaranteed}", "{**total, **nearest}"),
    ),
)  # fmt: skip

LIMITS: Final = _of(
    "rules.limits",
    ("wildcard_for_named_users", "5: `*` is for users that no limit names", "for name in (user, ANYONE):", "for name in (ANYONE, user):"),
    ("wildcard_for_named_groups", "5: `*` is for groups that no limit names", "for name in (group, ANYONE):", "for name in (ANYONE, group):"),
    ("user_limits_of_the_leaf_only", "5: limits hold on every level", "                yield Applying(level, USER, user, limit)\n                break\n", "                yield Applying(level, USER, user, limit)\n                break\n        break\n"),
    ("no_group_limits", "5: limits hold for groups", "    if not groups:\n        return\n    group = group_of", "    if groups or not groups:\n        return\n    group = group_of"),
    ("any_group_counts", "5: an application belongs to the first group that a limit names", "if name != ANYONE and name in groups), ANYONE)", "if name != ANYONE), ANYONE)"),
    ("star_is_shared_by_users", "5: each user has what is allowed to `*` for himself", "yield Applying(level, USER, user, limit)", "yield Applying(level, USER, name, limit)"),
)  # fmt: skip

LIFE: Final = _of(
    "rules.lifecycle",
    ("never_running", "7: the second allocation makes an application Running", "STARTING: RUNNING, ", "STARTING: STARTING, "),
    ("no_way_back", "7: a new ask brings a Completing application back", "COMPLETING: RUNNING, ", ""),
    ("completing_counts_as_running", "9: a Completing application holds no slot", "OVER: Final = TERMINAL | {COMPLETING}", "OVER: Final = TERMINAL"),
    ("starting_for_ever", "7: Starting ends by itself", '    STARTING: ("starting_ms", RUN),\n', ""),
    ("completing_for_ever", "7: Completing ends by itself", '    COMPLETING: ("completing_ms", COMPLETE),\n', ""),
    ("records_for_ever", "7: terminal records leave memory", '    COMPLETED: ("ended_ms", EXPIRE),\n', ""),
    ("resumes_as_running", "7: Resuming leads to Accepted", "RESUMING: ACCEPTED}", "RESUMING: RUNNING}"),
)  # fmt: skip

EXECUTION: Final = _of(
    "state.application",
    ("time_of_placeholders_ends_all", "7: the time-out of an application with placeholders is theirs", "return 0 if self.placeholder_ask or self.task_groups else", "return 0 if self.placeholder_ask else"),
    ("execution_never_ends", "7: an application without placeholders runs only so long", "return 0 if self.placeholder_ask or self.task_groups else max(0, self.execution_timeout_ms)", "return 0"),
)  # fmt: skip

ACCESS: Final = (
    Mutant("star_is_a_name", "4: `*` is everyone", "remuda_proto.access_list", "        if [EVERYONE] in fields:\n            return cls(everyone=True)\n", ""),
    *_of(
        "rules.acl",
        ("admins_may_not_submit", "4: who administers a queue may submit to it", " or allows(s.admin_acl, user, groups)", ""),
    ),
    *_of(
        "decide.submit",
        ("unknown_groups_are_none", "4: groups that are not known are not none", "    if not is_ignored(command.groups_problem):\n", "    if False:\n"),
    ),
    Mutant("groups_are_not_looked_at", "4: groups of a list have access", "remuda_proto.access_list", " or not self.groups.isdisjoint(groups)", ""),
)  # fmt: skip

PROPERTIES: Final = _of(
    "rules.properties",
    ("priority_sort_always", "9: application.sort.priority disabled", '!= "disabled"', '!= ""'),
    ("no_priority_offset", "9: priority.offset is added", 'return int(properties.get("priority.offset", "0"))', "return 0"),
    ("no_priority_fence", "9: priority.policy fence", 'return properties.get("priority.policy") == "fence"', "return False"),
    ("no_preemption_fence", "13: victims are inside the nearest fence", 'return properties.get("preemption.policy") == "fence"', "return False"),
    ("no_queue_is_exempt", "13: preemption.policy disabled", 'return properties.get("preemption.policy") == "disabled"', "return False"),
    ("preemption_at_once", "13: preemption.delay", 'return milliseconds(properties.get("preemption.delay", "")) or PREEMPTION_DELAY_MS', "return 0"),
)  # fmt: skip

QUOTAS: Final = _of(
    "rules.quota",
    ("quota_tags_ignored", "6: namespace.resourcequota", "if MAX_TAG not in tags and GUARANTEED_TAG not in tags:", "if tags is not None:"),
)  # fmt: skip

PLACEMENT: Final = (
    *_of(
        "rules.placement",
        ("dots_stay", "1: a dot out of a rule becomes _dot_", 'name.replace(".", "_dot_")', 'name.replace(".", "_")'),
        ("create_is_ignored", "5: create false makes no queue", "if missing and not rule.create:", "if False:"),
        ("everybody_may_submit", "5: a rule yields a queue the user may submit to", "if not acl.may_submit((q.settings for q in nearest.path_to_root), who.user, who.groups):", "if False:"),
        ("draining_queues_take", "16: a draining queue takes no applications", "if any(q.draining for q in nearest.path_to_root):", "if False:"),
        ("no_forced_placement", "5: application.create.force", 'who.tags.get(FORCE_CREATE_TAG, "").lower() == "true"', "False"),
        ("nothing_by_default", "5: what no rule places goes to root.default", "if DEFAULT_QUEUE in queues and not runs:", "if False:"),
        ("forced_by_default", "5: forced applications do not go to root.default", 'who.tags.get(FORCE_CREATE_TAG, "").lower() == "true"', 'who.tags.get(FORCE_CREATE_TAG, "").lower() == "true" and DEFAULT_QUEUE not in queues'),
        ("default_for_everybody", "5: submit access counts for root.default too", "found = _check(DEFAULT_QUEUE, _DEFAULT, queues, who)", "found = Placed(DEFAULT_QUEUE)"),
        ("parent_rule_ignored", "5: a rule with parent hangs its result below", "        parent = above\n", ""),
    ),
    *_of(
        "rules.placement_rules",
        ("deny_is_allow", "5: a filter may deny", 'return named == (rule_filter.type != "deny")', "return named"),
        ("first_secondary_group", "5: the first other group that passes the filter", "for g in who.groups[1:] if group_passes(rule.filter, g)", "for g in who.groups[1:]"),
        ("primary_group_is_secondary", "5: secondarygroup leaves the first group out", "for g in who.groups[1:]", "for g in who.groups"),
        ("list_is_expression", "5: several entries of a filter are a list", "return name in names", "return any(patterns.found(each, name) for each in names)"),
    ),
)  # fmt: skip

SUBMIT: Final = _of(
    "decide.submit",
    ("ids_come_twice", "7: a living application's ID is taken", "if known is not None and not known.terminal:", "if False:"),
    ("no_template", "6: dynamic queues have their parent's template", "    if template is None or not leaf:", "    if template is not None or not leaf:"),
    ("copies_of_templates", "6: a queue has the template that is in force, not a copy of its parent's", "    if template is None or not leaf:\n        return QueueSettings(name)\n", "    if template is None:\n        return QueueSettings(name)\n    if not leaf:\n        return QueueSettings(name, child_template=template)\n"),
    ("quota_of_configured_queues", "6: a quota by tag is for dynamic queues", "if not queue.managed and settings != queue.settings:", "if settings != queue.settings:"),
    ("guaranteed_tag_ignored", "6: namespace.resourceguaranteed", "guaranteed=quota.guaranteed or settings.guaranteed, max", "guaranteed=settings.guaranteed, max"),
    ("end_is_not_told", "7: an application that holds nothing is Completed when it is removed", "    if application.state == lifecycle.COMPLETING and not holds:", "    if False:"),
    ("end_is_told_too_early", "7: one that holds something is Completing when it is removed", "    if application.state == lifecycle.COMPLETING and not holds:", "    if application.state == lifecycle.COMPLETING:"),
    ("end_of_completing_is_not_told", "7: one that is Completing is Completed when it is removed", "    if application.state != lifecycle.NEW:\n", "    if application.state not in (lifecycle.NEW, lifecycle.COMPLETING):\n"),
    ("completing_of_removed_is_not_told", "7: an application that is removed is Completing first", "    if application.state != lifecycle.NEW:\n", "    if application.state == lifecycle.COMPLETING:\n"),
    ("record_of_ended_is_lost", "7: removing an application that has ended changes nothing", "application is None or application.terminal:\n        return\n    message", "application is None:\n        return\n    message"),
)  # fmt: skip

NODES: Final = _of(
    "decide.node",
    ("draining_node_stays_reserved", "10: a draining node is reserved for bound asks only", '    yield from release_reservation(partition, node, "the node is draining", but_for=node.id)\n', "    yield from ()\n"),
    ("draining_takes_bound_reservations", "10: asks that are bound to a draining node keep it", '"the node is draining", but_for=node.id)', '"the node is draining")'),
    ("undraining_is_refused", "10: opening a node that does not drain changes nothing, and is not answered", "        yield facts.NodeSchedulable(partition.name, node.id, draining=otherwise)\n", '        yield facts.NodeSchedulable(partition.name, node.id)\n    else:\n        yield reject("it is not draining")\n'),
    ("draining_twice_is_told", "10: draining a draining node changes nothing", "    if not node.drained_by_rm:\n", "    if True:\n"),
)  # fmt: skip

QUEUES: Final = _of(
    "decide.configure",
    ("dynamic_queues_stay", "6: a dynamic queue goes when nothing is in it", "        if not queue.children and not queue.applications:", "        if queue.managed and not queue.children and not queue.applications:"),
    ("configured_queues_go", "6: a configured queue stays, empty or not", " and (not q.managed or q.draining)]", "]"),
    ("partition_limits_ignored", "18: limits of a partition are those of root, where root has none", "    if partition.limits and not root.limits:", "    if False:"),
    ("partition_limits_over_root", "18: limits of a partition have no effect where root has some", "    if partition.limits and not root.limits:", "    if partition.limits:"),
    ("stateaware_without_compatibility", "18: stateaware is fifo", '        changed["properties"] = {**queue.properties, SORT_POLICY: FIFO}', "        pass"),
    ("newest_under_1_4", "18: under 1.4's rules limits of a partition have no effect", "written if configuration.compatibility == YUNIKORN_1_4 else as_newest(written)", "as_newest(written)"),
)  # fmt: skip

ASKS: Final = _of(
    "decide.ask",
    ("release_by_key_alone_ignored", "15: a release without an application is for all asks of that key", "partition.named(command.application_id, key)", "(partition.named(command.application_id, key) if command.application_id else [])"),
    ("asks_of_nothing", "8: an ask of nothing is rejected", "    if not any(ask.resource.values()):", "    if False:"),
    ("asks_of_failing", "7: an application that is Failing takes no asks", "application.terminal or application.state == lifecycle.FAILING:", "application.terminal:"),
)  # fmt: skip

GANGS: Final = (
    *_of(
        "decide.gang",
        ("gangs_in_fair_queues", "12: no gangs in fair queues", "if sort_policy(settings.properties) == FAIR:", "if False:"),
        ("gangs_above_the_maximum", "7: a placeholder ask larger than the maximum is rejected", "if placeholder_ask.get(name, 0) > most:", "if False:"),
        ("hard_is_soft", "12: a Hard gang fails", "        if application.gang_scheduling_style == HARD:", "        if False:"),
        ("soft_is_hard", "12: a Soft gang resumes", "        if application.gang_scheduling_style == HARD:", "        if True:"),
        ("gang_without_places_stays_resuming", "12: a gang whose placeholders were all pending resumes, too", "    yield from after_release(partition, application, True, now_ms)  # all of them may have been pending\n", ""),
        ("places_are_never_given_up", "12: left-over placeholders are released", "    yield from give_back(placeholders(application), message)\n", "    yield from ()\n"),
        ("placeholder_asks_stay", "12: a time-out takes placeholder asks back", "        if pending.ask.placeholder:\n            yield from withdraw", "        if False:\n            yield from withdraw"),
        ("hard_gang_that_started_fails", "12: a gang that has started keeps its real work", "    if application.state in (lifecycle.NEW, lifecycle.ACCEPTED):", "    if application.state != lifecycle.RUNNING:"),
    ),
    *_of(
        "cycle.replace",
        ("small_places_are_taken", "12: a real ask larger than the placeholder", "    return all(amount <= room.get(name, 0) for name, amount in need.items())", "    return True"),
        ("small_places_stay", "12: placeholders that are too small are given up", "            yield release_requested(placeholder, TIMEOUT, message)\n", "            yield from ()\n"),
        ("place_on_a_draining_node", "12: no place is taken on a node that takes nothing new", "takes = node.takes(bound_to) and ends_before(", "takes = ends_before("),
    ),
    *_of(
        "decide.allocation",
        ("completing_is_not_told", "7: an application that has nothing left is Completing", "        yield from transition(partition, application, lifecycle.COMPLETE, now_ms)\n\n\ndef problem_of_room", "        yield from ()\n\n\ndef problem_of_room"),
        ("first_replacement_starts", "12: a gang's first replacement does not move it on", "    if others or gang.state == lifecycle.COMPLETING:", "    if True:"),
        ("second_replacement_starts_nothing", "12: a gang leaves Accepted with the second replacement", "    if others or gang.state == lifecycle.COMPLETING:", "    if gang.state == lifecycle.COMPLETING:"),
    ),
    *_of(
        "cycle.transitions",
        ("real_ask_starts_no_gang", "12: a gang leaves Accepted with the first real allocation that takes no place", "    if application.state == lifecycle.RESUMING:\n        return ()\n", "    if application.state == lifecycle.RESUMING or (application.placeholder_ask and not ask.placeholder):\n        return ()\n"),
        ("resuming_gang_moves_on", "12: nothing starts a gang while it resumes", "    if application.state == lifecycle.RESUMING:\n        return ()\n", ""),
        ("each_placeholder_starts", "12: of placeholders the last one starts the gang", "    if ask.placeholder and not is_last_placeholder(application, ask.resource):", "    if False:"),
    ),
    *_of(
        "state.application",
        ("refused_place_goes_last", "12: a placeholder that was refused is the first to be taken again", "        for _, _, uuid in self._order:\n            yield self._by_uuid[uuid]", "        yield from self._by_uuid.values()"),
        ("youngest_place_first", "12: the placeholder kept longest is taken first", "        for _, _, uuid in self._order:", "        for _, _, uuid in reversed(self._order):"),
    ),
)  # fmt: skip

RESERVATIONS: Final = (
    *_of(
        "index.nodes",
        ("kept_where_nominal", "11: a node is reserved only where the ask can be obtained", "            elif covers(group.obtainable, demand.need):", "            elif covers(group.capacity, demand.need):"),
        ("kept_beside_the_occupied", "11: what others occupy does not leave", "self._less(self._whole(node), node.occupied, node.bound)", "self._less(self._whole(node), node.bound)"),
        ("kept_on_the_same_node_again", "11: after a time-out the ask reserves another node", "refused = NoneOf(demand.refused, but) if but else demand.refused if demand.node_specific else NO_NODES", "refused = demand.refused if demand.node_specific else NO_NODES"),
        ("kept_on_no_node_again", "11: after a time-out the ask reserves the same node if there is no other", "        if found is None and but and but not in demand.refused:", "        if False:"),
    ),
    *_of(
        "evolve.booking",
        ("kept_beside_the_bound", "11: allocations bound to a node do not leave it", "    if is_protected(allocation.fact.tags):\n", "    if False:\n"),
        ("kept_beside_copies", "11: what is bound only because it runs there does leave", "    if is_protected(allocation.fact.tags):\n", "    if \"si/requiredNode\" in allocation.fact.tags:\n"),
    ),
    *_of(
        "cycle.reserve",
        ("kept_bound_where_nominal", "11: a node is reserved for an ask bound to it only where that can be obtained", "covers(index.nodes.obtainable(node), demand.need)", "covers(index.nodes.vector(node.capacity), demand.need)"),
        ("kept_for_ever_unjustified", "11: a reservation ends when a condition is gone", "    for node, reason in index.reserved_nodes.unjustified():\n", "    for node, reason in ():\n"),
    ),
    *_of(
        "index.reservations",
        ("kept_beyond_maxima", "11: what is reserved fits every maximum and limit", "            if self._has_no_room(limit, wanted):\n", "            if False:\n"),
    ),
    *_of(
        "index.limits",
        ("kept_beyond_limits", "11: what is reserved fits the limits of users", "return (*application.quotas, *application.queue.budgets)", "return (*application.queue.path_to_root, *application.queue.budgets)"),
    ),
    *_of(
        "index.reservations",
        ("kept_beyond_the_share_of_a_queue", "11: asks of one queue keep a quarter of the nodes", "        if len(self.shares.get(application.queue, ())) >= self.most(", "        if False and len(self.shares.get(application.queue, ())) >= self.most("),
        ("kept_beyond_the_share", "11: asks keep half of the nodes", "        return self._index.partition if self.is_full() else None", "        return None"),
        ("kept_bound_within_the_share", "11: asks that are bound to a node have no share", "        if bound:\n            return None\n", ""),
        ("kept_none_of_few", "11: one node always may be reserved", "return max(1, len(self._index.partition.nodes) * per_cent // 100)", "return len(self._index.partition.nodes) * per_cent // 100"),
        ("kept_on_small_nodes", "11: a reservation ends when its node is too small", "        if not covers(self._index.nodes.obtainable(node), kept.need):\n", "        if False:\n"),
        ("kept_on_nodes_not_ready", "11: a reservation ends when its node is not ready", "        if not node.takes(bound):\n", "        if False:\n"),
        ("kept_under_lower_maxima", "11: a reservation ends when a maximum leaves no room for it", "                yield from self._over(limit)\n", "                yield from ()\n"),
        ("kept_oldest_goes", "11: the youngest reservations end", "key=self._age, reverse=True)", "key=self._age)"),
        ("kept_all_when_nodes_go", "11: when nodes go, reservations end that exceed the share", "            yield from self._above_share()\n", "            yield from ()\n"),
        ("kept_without_a_sum", "11: what is reserved counts, not only what is asked for", "            add(wanted, reserved)\n", ""),
        ("kept_waits_for_ever", "11: an ask reserves once quota and share have room", "                self._wait_no_more(ask_class)\n                ask_class.consider()\n", "                self._wait_no_more(ask_class)\n"),
    ),
    *_of(
        "rules.properties",
        ("kept_priority_without_offset", "11: priorities are compared through offsets", "return priority_offset(properties) + (0 if", "return (0 if"),
        ("kept_priority_without_fence", "11: priorities are compared through fences", "(0 if is_priority_fence(properties) else priority)", "priority"),
    ),
    *_of(
        "cycle.reserve",
        ("bound_ask_keeps_others_from_the_node", "13: each ask that is bound to a node preempts in its turn", "            ask_class.set_aside()\n            return 0\n", "            index.demands.end_reserving(demand)\n            return 0\n"),
        ("kept_from_the_guaranteed", "11: an ask within its guaranteed takes a node from one that is not", "    if guaranteed != other_guaranteed:\n        return guaranteed\n", ""),
        ("kept_from_priority", "11: an ask of higher priority takes a node", "    return not node.preempting and has_higher_priority(pending, kept_for)", "    return False"),
        ("kept_not_from_equals", "11: an ask of equal right takes no node", "return _priority_below(one, common) > _priority_below(other, common)", "return _priority_below(one, common) >= _priority_below(other, common)"),
        ("kept_not_for_the_bound", "11: a node is not taken from an ask that is bound to it", "    if required_node(kept_for.ask.tags):\n        return False\n", ""),
        ("kept_right_without_end", "11: an ask above the guaranteed of its queue has no such right", "            if by.allocated.get(name, 0) - by.preempting.get(name, 0) + amount > by.settings.guaranteed[name]:\n                return False\n", ""),
        ("kept_right_without_guaranteed", "11: a missing guaranteed guarantees nothing", "    found = False\n    for name, amount", "    found = True\n    for name, amount"),
        ("kept_taken_only_to_run", "11: an ask of more right takes over a reservation", "    if not index.reserving.may_reserve(demand, pending):\n        return None\n", "    return None\n"),
        ("kept_taken_though_another_fits", "11: only an ask that fits no other node takes one", "        return None if _fits_elsewhere(index, demand) else Claim(ask_class, pending, node, True)", "        return Claim(ask_class, pending, node, True)"),
        ("kept_taken_though_another_could_be_kept", "11: a reservation is taken over only where no other node will do", "    if in_the_way is None and not index.reserving.finds_no_node(demand):\n", "    if False:\n"),
    ),
    *_of(
        "cycle.preempt",
        ("kept_from_preemption", "11: an ask of more right preempts on a node that is kept", "if not node.schedulable or node in others or not may_take(pending, node):", "if not node.schedulable or node in others or node.reservation not in (None, pending):"),
    ),
    *_of(
        "evolve.nodes",
        ("kept_without_time", "11: a reservation lasts for timing.reservation_timeout", "    state.timers.put(timeouts.of_reservation(partition.name, node, state.timing))\n", ""),
        ("kept_at_once_again", "11: after a time-out the ask waits anew", "        pending.timed_out_ms, pending.timed_out_on = state.now_ms, node.id\n", "        pending.timed_out_on = node.id\n"),
    ),
    *_of(
        "decide.administer",
        ("kept_when_it_moves", "11: a reservation ends when the application moves", "            if not node.preempting:\n", "            if False:\n"),
    ),
)  # fmt: skip

PASS: Final = (
    *_of(
        "cycle.schedule",
        ("reserved_after_normal", "11: reserved asks go before all others", "            placed += yield from place_reserved(state, partition, one, limit - placed, now_ms)\n", "            placed += yield from place_pending(state, partition, one, limit - placed, now_ms)\n            placed += yield from place_reserved(state, partition, one, limit - placed, now_ms)\n"),
        ("budget_is_not_shared", "9: partitions share the limit of a pass evenly", "max(1, left // len(busy)), []", "max(1, left), []"),
        ("rest_of_budget_is_lost", "9: what one partition does not need goes to the others", "        busy = still_busy[: max(0, left)]", "        busy = []"),
        ("bound_do_not_preempt_first", "9: asks their node is reserved for preempt before normal asks", "            yield from preempt_where_bound(state, partition, one, now_ms)", "            yield from ()"),
        ("bound_do_not_preempt_in_turn", "13: a bound ask preempts in its turn among all others", "                yield from preempt_in_turn(state, partition, index, pending, now_ms)\n", "                yield from ()\n"),
        ("scheduling_while_paused", "14: nothing new while the RM is away", "    if state.rm_state != RUNNING:\n        return\n", ""),
    ),
    *_of(
        "index.queues",
        ("queues_not_by_priority", "9: priority first", "return (-queue.priority, share, -self.weight, queue.path)", "return (share, -queue.priority, -self.weight, queue.path)"),
        ("smaller_pending_first", "9: the larger pending amount first", "return (-queue.priority, share, -self.weight, queue.path)", "return (-queue.priority, share, self.weight, queue.path)"),
        ("held_quota_is_taken", "13: what is kept under a maximum for a preempting ask is left to no other", "            if held:\n                over += held.get(name, 0)\n", ""),
    ),
    *_of(
        "index.leaves",
        ("fifo_not_by_priority", "9: fifo is by priority, then age", "        if self.by_priority:\n            return (-application.priority, application.seq)", "        if self.by_priority:\n            return (application.seq, -application.priority)"),
        ("fair_not_by_priority", "9: fair is by priority, then share", "return (-application.priority, shares, application.id)", "return (shares, -application.priority, application.id)"),
    ),
    *_of(
        "index.scores",
        ("fullest_node_first", "10: fair takes the least used node", '    "fair": fair,', '    "fair": binpacking,'),
        ("weights_ignored", "10: the score is a weighted mean", "used += weight * (1.0 - available[place] / capacity[place])\n            total += weight", "used += 1.0 - available[place] / capacity[place]\n            total += 1.0"),
    ),
    *_of(
        "index.nodes",
        ("full_node_takes_more_in_a_pass", "10: a node takes only so many allocations", "        if node.allocations_left <= 0:\n", "        if False:\n"),
    ),
    *_of(
        "index.nodes",
        ("not_packed", "10: a packed application goes to a node on which it is already", "        if demand.required_node or not application.allocations:", "        if True:"),
        ("packed_node_stays_full", "10: a packed application goes to a node on which it is already, once that has room again", "        if applications and room is not None:", "        if False:"),
        ("bound_ask_is_packed", "10: an ask with requiredNode runs on that node, packed or not", "        if demand.required_node or not application.allocations:", "        if not application.allocations:"),
    ),
    *_of(
        "decide.allocation",
        ("full_node_takes_what_is_reported", "10: a node takes only so many allocations, reported ones included", "    if node is not None and node.full:", "    if False:"),
    ),
    *_of(
        "state.application",
        ("full_node_is_served", "10: a node takes only so many allocations", "return self.reservation is None and self.kept is None and self.schedulable and not self.full", "return self.reservation is None and self.kept is None and self.schedulable"),
        ("not_ready_takes", "10: nothing new on a node that is not ready", 'self.attributes.get("ready", "true").lower() != "false"', "True"),
        ("not_ready_takes_bound_asks", "10: nothing new on a node that is not ready, whether bound to it or not", "        return self.ready and (bound_to == self.id or", "        return (bound_to == self.id or"),
        ("draining_takes_no_bound_asks", "10: a draining node takes asks that are bound to it", "        return self.ready and (bound_to == self.id or (not self.draining and not bound_to))", '        return self.schedulable and bound_to in ("", self.id)'),
        ("not_ready_takes_unbound_asks", "10: nothing new on a node that is not ready, whether bound to it or not", "        return not self.draining and self.ready", "        return not self.draining"),
        ("draining_takes_all", "10: a draining node takes only asks that are bound to it", "        return not self.draining and self.ready", "        return self.ready"),
    ),
    *_of(
        "cycle.victims",
        ("spared_victims_go", "13: what the RM spares is no victim", "            and not (spared and spared.get(a.fact.uuid, 0) > self.now_ms)\n", ""),
        ("spared_for_ever", "13: what the RM spares may be a victim a minute later", "spared.get(a.fact.uuid, 0) > self.now_ms", "a.fact.uuid in spared"),
    ),
    *_of(
        "decide.predicate",
        ("not_asked_again_at_once", "13: others are looked for in the place of spared victims at once", "    is_spared = bool(set(spared) & set(asked.uuids))  #", "    is_spared = False  #"),
    ),
    *_of(
        "rules.required_node",
        ("bound_to_nothing", "10: an ask with requiredNode runs on that node or waits", "        if tag in tags:", "        if False:"),
    ),
    *_of(
        "cycle.transitions",
        ("stateaware_disable_ignored", "7: application.stateaware.disable", '.lower() == "true":', '.lower() == "":'),
    ),
    *_of(
        "index.reservations",
        ("held_back_by_no_limit", "11: a reserved ask keeps to its limits", "        if limit is not None:\n            self._index.stalled.block(node, limit)\n            return True\n", ""),
        ("bound_ask_keeps_others_from_the_full", "13: each ask that is bound to a node preempts in its turn", "        if demand.required_node:\n            ask_class.set_aside()\n", "        if False:\n            ask_class.set_aside()\n"),
        ("kept_for_one_node_only", "11: a reserved ask goes to any node with room", "        return self._next_elsewhere() if self.opened else None", "        return None"),
    ),
    *_of(
        "index.limits",
        ("limits_of_users_ignored", "5: what users and groups may use", "        if exceeds(resource, tracker.limit.max_resources, tracker.used, NOTHING_HELD if has_place else tracker.held):", "        if False:"),
        ("any_number_runs", "9: maxapplications", "        if not gate.has_running_slot():\n            return gate\n", "        pass\n"),
        ("held_under_limits_is_taken", "13: what is kept under a limit for a preempting ask is left to no other", "NOTHING_HELD if has_place else tracker.held):", "NOTHING_HELD):"),
        ("held_for_itself_is_in_its_way", "13: what is kept for an ask is left to it", "        held = NOTHING_HELD if pending.has_place else queue.held", "        held = queue.held"),
    ),
)  # fmt: skip

ADMINISTRATION: Final = (
    *_of(
        "rules.acl",
        ("admin_submitters_administer", "19: the submit ACL gives no right to administer", "return any(allows(s.admin_acl, user, groups) for s in settings)", "return may_submit(settings, user, groups)"),
    ),
    *_of(
        "decide.administer",
        ("admin_everybody_acts_on_queues", "19: an operator needs the adminacl", "    if not may_administer([", "    if False and not may_administer(["),
        ("admin_not_from_above", "19: the adminacl of a queue above suffices", "for above in queue.path_to_root], command.operator", "for above in queue.path_to_root[:1]], command.operator"),
        ("admin_everybody_drains", "19: nodes need a scheduler administrator", "    if not command.scheduler_administrator:", "    if False:"),
    ),
    *_of(
        "decide.administer",
        ("admin_acts_twice", "19: a repeated action changes nothing", "    if known is not None:", "    if False:"),
        ("admin_other_action_same_id", "19: another action with a known ID is refused", "    if known.action == action:", "    if True:"),
        ("admin_force_breaks_all", "19: hard rules hold whatever is forced", "    if found and not (soft and command.force):", "    if found and not command.force:"),
        ("admin_soft_rules_are_hard", "19: force allows what soft rules refuse", "    if found and not (soft and command.force):", "    if found:"),
    ),
    *_of(
        "decide.administer",
        ("admin_moves_to_any_queue", "19: the operator administers the other queue, too", "        return\n    yield from problems_of_access(queue, act.command)\n    leaf =", "        return\n    leaf ="),
        ("admin_moves_into_draining", "19: a draining queue takes no applications", "    if draining is not None:", "    if False:"),
        ("admin_moves_without_submit", "19: the user may submit to the other queue", "    if not may_submit(", "    if False and not may_submit("),
        ("admin_gang_moves_to_fair", "19: gangs do not go to fair queues", "    if gang and sort_policy", "    if False and sort_policy"),
        ("admin_common_queues_count", "19: the usage of queues above both places stays", "new = [above for above in queue.path_to_root if above not in application.queue.path_to_root]", "new = list(queue.path_to_root)"),
        ("admin_moves_above_maximum", "19: a maximum refuses a move", "        if amount and amount + have > maximum:", "        if False:"),
        ("admin_moves_without_slot", "19: the running applications refuse a move", "        if application.counts_as_running and not above.has_running_slot():", "        if False:"),
    ),
    *_of(
        "evolve.administration",
        ("admin_hold_is_forgotten", "19: a hold outlives its queue", "hold = state.holds[fact.partition, fact.queue] = Hold(", "hold = Hold("),
    ),
    *_of(
        "evolve.queues",
        ("admin_new_queues_are_not_held", "19: a hold belongs to the path", "    queue.hold = state.holds.get((fact.partition, fact.queue)) if state.holds else None\n", ""),
    ),
    *_of(
        "evolve.nodes",
        ("admin_rm_opens_what_operators_drain", "19: the RM lifts only its own drain", "            node.drained_by_rm = False\n        node.draining = node.is_drained", "            node.drained_by_rm = False\n        node.draining = False"),
        ("admin_registration_ends_drains", "19: a drain outlives a registration", "drained = state.drains.get((fact.partition, fact.node_id)) if state.drains else None", "drained = None"),
        ("admin_removed_node_stays_drained", "19: a drain ends with the node", "    state.drains.pop((fact.partition, fact.node_id), None)\n", ""),
    ),
    *_of(
        "evolve.booking",
        ("time_ends_with_the_last_place", "12: the timeout of a gang goes on while placeholders are pending", "    if not application.placeholders_coming or not state.timers.has(timer):", "    if True:"),
        ("admin_killed_gang_is_replaced", "19: a killed gang that was resuming replaces nothing", "[each for each in group.free if each.releasing]", "[]"),
    ),
    *_of(
        "index.limits",
        ("admin_parents_do_not_hold", "19: a hold counts for the queues below", "for above in queue.path_to_root if above.hold", "for above in queue.path_to_root[:1] if above.hold"),
    ),
    *_of(
        "index.gangs",
        ("admin_held_gangs_go_on", "19: in a held queue no placeholder is replaced", "    if leaf.held:\n        return\n", ""),
    ),
    *_of(
        "decide.administer",
        ("admin_questions_stay_open", "19: a hold ends open questions", "        if question.application.id in ids:", "        if False:"),
        ("admin_reservations_stay", "19: a hold ends reservations", "        for pending in sorted(application.reserving.values(), key=attrgetter(\"seq\")):", "        for pending in ():"),
    ),
    *_of(
        "rules.lifecycle",
        ("admin_resuming_survives", "19: an application that is resuming can be killed", "        RESUMING: FAILING,\n", ""),
        ("admin_completing_survives", "19: an application that is completing can be killed", "        COMPLETING: FAILING,\n", ""),
    ),
)  # fmt: skip

GUESTS: Final = (
    *_of(
        "decide.guests",
        ("guests_are_forgotten", "14: guests outlive a registration with `report`, and a deregistration", "    return any(\n", "    return False and any(\n"),
        ("guests_do_not_return", "14: what guests hold is booked with the registration", "[name for name in state.left_guests if name in state.partitions]", "[]"),
        ("queues_of_guests_stay", "14: a queue with guests that is no longer configured drains", "            if added.managed:\n", "            if False:\n"),
        ("guests_need_no_queue", "14: a configuration in which queues of guests have no place is refused", ".get(path, leaf) != leaf:", ".get(path, leaf) is None:"),
        ("releases_of_guests_are_forgotten", "14: releases of guests are still asked for", "    yield from releases\n", ""),
    ),
    *_of(
        "evolve.nodes",
        ("guests_leave_no_trace", "14: a node that is reported again has its guests", "partition.unreported.pop(fact.node_id, None) or Node(", "Node("),
    ),
)  # fmt: skip

MUTANTS: Final[tuple[Mutant, ...]] = (
    *SHARES, *LIMITS, *LIFE, *EXECUTION, *ACCESS, *PROPERTIES, *QUOTAS, *PLACEMENT, *SUBMIT, *NODES, *QUEUES, *ASKS, *GANGS, *RESERVATIONS, *PASS, *PREEMPTION, *RECOVERY, *EXPLAIN,
    *ADMINISTRATION, *GUESTS, *PREDICATE_CLASSES, *DEVICES, *TOPOLOGY, *MEMORY, *BACKFILL, *LEAVING, *BUDGETS, *LOANS, *WINDOWS, *LEDGER, *FORECASTS, *PELOTON,
)  # fmt: skip
