"""Rules of the topology, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

TOPOLOGY: Final = (
    *mutants_of(
        "rules.topology",
        ("domains_by_name", "21: a domain is the whole path of attributes", "        path.append(value)\n", "        path = [value]\n"),
        ("domains_without_attributes", "21: a node without an attribute is in no domain of the level and of those below", "        if not value:\n            break\n", "        if not value:\n            continue\n"),
        ("levels_degrade", "21: a level that the partition lacks refuses the ask", "                return f\"{whose} {name}: {shown(given[name])}, expected {_expected(levels)}\"", "                return None"),
        ("spread_within_one", "21: `required` and `spread` of one level are refused", "    if wish.required and wish.spread and place_of(levels, wish.required) == place_of(levels, wish.spread):", "    if False:"),
        ("wishes_coarser_than_required", "21: a `preferred` or a slice level coarser than `required` is refused", "            if level and place_of(levels, level) < place_of(levels, bound):", "            if False:"),
        ("slices_with_a_rest", "21: slices divide the size of the group", "    if wish.slice_size and members % wish.slice_size:", "    if False:"),
        ("groups_of_asks_alone", "21: the tag `group` says which asks belong together", "    if GROUP in tags:\n", "    if False:\n"),
        ("groups_of_tasks_ignored", "21: without a tag the task group is the group", "group = \"t:\" + task_group if task_group else", "group = \"t:\" + task_group if False else"),
    ),
    *mutants_of(
        "index.groups",
        ("groups_start_in_part", "21: a group starts with all members, or none", "        return wish.slice_size if group.members else wish.size\n", "        return wish.slice_size if group.members else 1\n"),
        ("groups_size_ignored", "21: as many members start as `size` says", "        return wish.slice_size if group.members else wish.size\n", "        return wish.slice_size if group.members else 0\n"),
        ("groups_are_not_bound", "21: further members are placed in the domain of their group", "            if whose is not None and whose.members and level:", "            if False:"),
        ("groups_in_any_order", "21: the largest member is placed first", "        return sorted(found, key=lambda one: (-one[2].weight,", "        return sorted(found, key=lambda one: (one[2].weight,"),
        ("groups_without_quota", "21: maxima have room for all members of a start", "quota = demand.resource if together is None else asked_together(together)", "quota = demand.resource"),
        ("groups_before_all_were_asked", "21: a start waits for all its members", "        if not together or count < self._starts(group, wish) or self._comes_later(group, wish):", "        if not together:"),
        ("gangs_without_their_placeholders", "21: the size of a gang is what its placeholders ask for", "count < self._starts(group, wish) or self._comes_later(group, wish):", "count < self._starts(group, wish):"),
        ("groups_of_levels_that_are_gone", "21: asks that name a level which was removed wait", "        if self._unknown_level(wish):\n            return []", "        if False:\n            return []"),
        ("groups_keep_the_quota_of_a_start", "21: maxima have room for all members of a start", "                    self._measure(one, demand)  # the first", "                    pass  # the first"),
        ("slices_lose_their_place", "21: a slice gets its members back where the others are", "            for path in self._incomplete(group, wish):", "            for path in sorted(group.counts[place_of(self.levels, wish.slice_level)]):"),
        ("slices_only_in_finer_domains", "21: a slice that lost members gets them back where the others are", "                if domain is not None and scope.is_in(domain):", "                if False:"),
        ("slices_over_many_domains", "21: slices are placed over as few domains as possible", "    most = sorted(room, key=lambda domain: (-room[domain], rank(domain)))", "    most = sorted(room, key=lambda domain: (room[domain], rank(domain)))"),
        ("slices_in_the_widest", "21: the last slices go to the tightest domain", "            return chosen + [min(enough, key=rank)] * left", "            return chosen + [max(enough, key=rank)] * left"),
        ("spread_where_most_are", "21: a member goes to the domain with the fewest members", "shape, domain), counts.get(domain.path, 0))", "shape, domain), -counts.get(domain.path, 0))"),
        ("preferred_is_required", "21: a preferred level is not waited for", "        return min(some, key=lambda one: (-room(one), -one.used, one.path)) if some else scope", "        return scope"),
        ("preferred_where_few_fit", "21: preferred members are placed over as few domains as possible", "        return min(some, key=lambda one: (-room(one),", "        return min(some, key=lambda one: (room(one),"),
    ),
    *mutants_of(
        "index.group_members",
        ("groups_bound_to_the_fewest", "21: a group is bound to the domain with most of its members", "        return min(counts, key=lambda path: (-counts[path], path))", "        return min(counts, key=lambda path: (counts[path], path))"),
        ("applications_in_two_domains", "21: tags of the application hold for all its asks", "        if wish.outer or (wish.near and", "        if (wish.near and"),
        ("groups_stay_in_old_domains", "21: a node that changes its domain takes its members along", "                if found is not None and found[1] != where:", "                if False:"),
    ),
    *mutants_of(
        "index.domains",
        ("domains_least_used_first", "21: of domains with equal room the one that is used most is taken", "        rank = (count, -domain.used, domain.path) if count else None", "        rank = (count, domain.used, domain.path) if count else None"),
        ("domains_just_too_small", "21: a domain with room for exactly so many is taken", "        start: Rank = (count,)\n", "        start: Rank = (count + 1,)\n"),
        ("copies_of_refused_nodes", "21: only nodes that the RM accepts are room", "        return not (demand.node_specific and demand.avoids(entry.id))", "        return True"),
    ),
    *mutants_of(
        "cycle.preempt",
        ("groups_preempt_unasked", "13, 21: an RM that wants to be asked is asked about groups, too", "    if state.preemption_predicates:\n        yield ask_rm", "    if state.preemption_predicates and isinstance(found, Plan):\n        yield ask_rm"),
    ),
    *mutants_of(
        "evolve.preemption",
        ("members_are_asked_about_alone", "13, 21: while the RM is asked about a group, its other members do not preempt", "    for ask in preemption.members or (pending,):\n        ask.preemption = preemption", "    for ask in (pending,) if preemption.question else preemption.members or (pending,):\n        ask.preemption = preemption"),
        ("spared_for_one_member", "13, 21: what the RM spares is no victim for any member of the group", "        for ask in asked.members or (pending,):\n            kept", "        for ask in (pending,):\n            kept"),
    ),
    *mutants_of(
        "cycle.preempt_groups",
        ("groups_preempt_everywhere", "21: a group preempts in one domain", "        self.entries = [entry for entry in domain.nodes if may_be_kept(entry.node)]", "        self.entries = [entry for entry in index.nodes._entries.values() if may_be_kept(entry.node)]"),
        ("groups_of_other_members_start", "21: a group with other members is planned anew", "    if isinstance(start, Start) and whole and start.asks != todo:", "    if False:"),
        ("groups_preempt_before_others_could_follow", "21: the first group of an application preempts where the others could find room", "            if not whole[shared].could_hold(start.others, room):", "            if False:"),
        ("kept_room_outside_of_the_application", "21: where the application has started elsewhere, kept room is given back", "    if isinstance(start, Start) and whole and not _are_in(index, preemption.nodes, start.scopes[0]):", "    if False:"),
        ("slices_preempt_anywhere", "21: slices preempt where that costs least", "                yield SliceOption(cost_of(victims), domain.path,", "                yield SliceOption((False, False, 0), domain.path,"),
        ("slices_preempt_once_in_a_rack", "21: several slices preempt in one rack if they fit there", "            for one in option(best.domain):\n                heappush(options, one)\n", ""),
    ),
    *mutants_of(
        "state.application",
        ("kept_nodes_are_for_all", "21: nothing else is placed on the nodes that are kept for a group", "self.reservation is None and self.kept is None and self.schedulable", "self.reservation is None and self.schedulable"),
    ),
    *mutants_of(
        "cycle.victims",
        ("complete_groups_like_others", "21: victims in groups that run complete come last", "    return all(other is None or other.group != wish.group for other in found)", "    return False"),
    ),
    *mutants_of(
        "index.packed_nodes",
        ("packed_into_empty_nodes", "21: small work goes to nodes in use before empty ones", "        return (part.avoided, part.empty, tuple(unused),", "        return (part.avoided, not part.empty, tuple(unused),"),
        ("packed_into_whole_racks", "21: of nodes alike those of racks with few empty nodes come first", "self.whole.get(part.domain, 0), part.domain.path)", "-self.whole.get(part.domain, 0), part.domain.path)"),
        ("packed_into_unused_racks", "21: small work goes to racks in use", "            unused.append(one not in self.used)", "            unused.append(one in self.used)"),
    ),
    *mutants_of(
        "cycle.avoid",
        ("avoided_at_once", "21: others avoid a domain for a group that has waited for timing.domain_delay", "avoidance.waiting_since(now_ms - delay_ms)", "avoidance.waiting_since(now_ms)"),
        ("avoided_for_ever", "21: the domain that is avoided is chosen anew after the delay", " and now_ms < partition.avoided_ms + delay_ms\n", "\n"),
        ("avoided_above_a_maximum", "21: nothing is avoided for a group that a maximum keeps", "    if any(exceeds(start.resource, queue.settings.max,", "    if False and any(exceeds(start.resource, queue.settings.max,"),
        ("avoided_for_nobody", "21: a domain is avoided no more when its group waits no more", "    if known is not None:\n        yield ended(known, \"its group", "    if False:\n        yield ended(known, \"its group"),
    ),
    *mutants_of(
        "index.avoidance",
        ("avoided_by_its_own_group", "21: a group does not avoid the domain that others avoid for it", "        avoided = self.domain if key != self.key else None", "        avoided = self.domain"),
        ("avoided_after_a_move", "21: the nodes that are avoided are those of the domain now", "            self._set(entry, any(domain.path == self.path for domain in standing.chain))", "            pass"),
    ),
    *mutants_of(
        "index.nodes",
        ("avoided_like_others", "21: nodes of an avoided domain come behind all others", "            if avoided:\n                score += AVOIDED\n", ""),
        ("avoided_by_groups_alone", "21: where applications are packed, others avoid a domain as well", "demand.avoids(packed.node.id) or self._is_avoided(packed.node)", "demand.avoids(packed.node.id)"),
        ("avoided_and_reserved", "21: an ask reserves a node of an avoided domain only if no other serves", "                if best is None or (group.avoided, lacking, group.score) <= best[:3]:\n                    node = group.first() if refused == NO_NODES else group.first_but(refused)\n                    if node is not None and (best is None or (group.avoided, lacking, group.score, node.id) < best):\n                        best, found = (group.avoided, lacking,", "                if best is None or (False, lacking, group.score) <= best[:3]:\n                    node = group.first() if refused == NO_NODES else group.first_but(refused)\n                    if node is not None and (best is None or (False, lacking, group.score, node.id) < best):\n                        best, found = (False, lacking,"),
    ),
    *mutants_of(
        "index.priced_nodes",
        ("avoided_if_dear", "21: with prices, nodes of an avoided domain come last whatever they cost", "            if best is not None and steps > lowest and not best.node.avoided:\n                break\n            places = trees[level]", "            if best is not None and steps > lowest:\n                break\n            places = trees[level]"),
    ),
    *mutants_of(
        "index.packed_nodes",
        ("avoided_and_packed", "21: small work is packed into an avoided rack last", "        return (part.avoided, part.empty,", "        return (False, part.empty,"),
    ),
    *mutants_of(
        "index.groups",
        ("avoided_by_small_work_alone", "21: groups take another domain before the one that they avoid", "                    if room(domain) < needed:\n", "                    if False:\n"),
        ("avoided_but_for_slices", "21: slices take other domains before the one that they avoid", "        beside = {domain: self.avoidance.room(group.key, shape, domain) for domain in with_room}", "        beside = {domain: shape.counts[domain] for domain in with_room}"),
        ("avoided_but_for_preferences", "21: groups with a preferred level take other domains before the one that they avoid", "            best = self._preferred(group, shape, scope, preferred, remaining, room)\n", "            best = self._preferred(group, shape, scope, preferred, remaining, shape.count)\n"),
        ("avoided_but_for_spreads", "21: groups that spread take other domains before the one that they avoid", "            rank = (not self.avoidance.room(group.key, shape, domain), counts", "            rank = (False, counts"),
        ("avoided_where_most_are_missing", "21: the domain with the fewest members missing is avoided", "sorted(((self.missing(start, one), one.used,", "sorted(((-self.missing(start, one), one.used,"),
        ("avoided_where_most_is_used", "21: of domains with as many members missing the least used one is avoided", "sorted(((self.missing(start, one), one.used,", "sorted(((self.missing(start, one), -one.used,"),
        ("groups_far_from_others", "21: groups start near others of an application that prefers that", "            return [domain for domain in known if domain is not None and domain.is_in(scope)]", "            return []"),
        ("groups_near_too_little_room", "21: the first group starts where all of its application may have room", "        fine = [domain for domain in scope.at(near) if self._have_room(group.application, domain)]", "        fine = list(scope.at(near))"),
        ("slices_preempt_and_split", "21: each slice that has preempted is in one domain", "        if slice_size:\n            return self._slices_on(asks, free, slice_level, slice_size)\n", ""),
        ("avoided_in_vain", "21: a domain is avoided that can hold the group", "                all(shape.most(part) >= count for shape, count in wanted) for part in parts\n", "                True for part in parts\n"),
        ("avoided_for_a_part", "21: for the first group of an application that shares a level, all that the application asks for counts", "        wanted = self._wanted_by_all(start) if domain.level == start.shared else self._wanted(start)", "        wanted = self._wanted(start)"),
        ("avoided_where_others_never_fit", "21: a domain is avoided that can hold all that the application asks for", "            if all(shape.most(domain) >= count for shape, count in shared) and any(", "            if any("),
        ("avoided_at_a_finer_level", "21: for the first group of an application, a domain of the level is avoided that the application shares", "        domains = start.domains if start.shared < 0 else start.scopes[0].at(start.shared)", "        domains = start.domains"),
    ),
)  # fmt: skip
