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
        ("groups_bound_to_the_fewest", "21: a group is bound to the domain with most of its members", "        return min(counts, key=lambda path: (-counts[path], path))", "        return min(counts, key=lambda path: (counts[path], path))"),
        ("groups_in_any_order", "21: the largest member is placed first", "        return sorted(found, key=lambda one: (-one[2].weight,", "        return sorted(found, key=lambda one: (one[2].weight,"),
        ("groups_without_quota", "21: maxima have room for all members of a start", "        if not self._begins(group, wish):\n            return demand.resource\n", "        return demand.resource\n"),
        ("groups_before_all_were_asked", "21: a start waits for all its members", "        if not together or count < self._starts(group, wish) or self._comes_later(group, wish):", "        if not together:"),
        ("gangs_without_their_placeholders", "21: the size of a gang is what its placeholders ask for", "count < self._starts(group, wish) or self._comes_later(group, wish):", "count < self._starts(group, wish):"),
        ("groups_of_levels_that_are_gone", "21: asks that name a level which was removed wait", "        if any(level and place_of(self.levels, level) < 0 for level in (wish.required, wish.slice_level, wish.outer)):", "        if False:"),
        ("groups_keep_the_quota_of_a_start", "21: maxima have room for all members of a start", "                    self._measure(one, demand)  # the first", "                    pass  # the first"),
        ("slices_lose_their_place", "21: a slice gets its members back where the others are", "            for path in self._incomplete(group, wish):", "            for path in sorted(group.counts[place_of(self.levels, wish.slice_level)]):"),
        ("slices_only_in_finer_domains", "21: a slice that lost members gets them back where the others are", "                if domain is not None and scope.is_in(domain):", "                if False:"),
        ("slices_over_many_domains", "21: slices are placed over as few domains as possible", "        most = sorted(with_room, key=lambda domain: (-shape.counts[domain], rank(domain)))", "        most = sorted(with_room, key=lambda domain: (shape.counts[domain], rank(domain)))"),
        ("slices_in_the_widest", "21: the last slices go to the tightest domain", "                return chosen + [min(enough, key=rank)] * left", "                return chosen + [max(enough, key=rank)] * left"),
        ("spread_where_most_are", "21: a member goes to the domain with the fewest members", "            count = counts.get(domain.path, 0)\n", "            count = -counts.get(domain.path, 0)\n"),
        ("preferred_is_required", "21: a preferred level is not waited for", "        return min(some, key=lambda one: (-shape.raw[one], -one.used, one.path)) if some else scope", "        return scope"),
        ("preferred_where_few_fit", "21: preferred members are placed over as few domains as possible", "        return min(some, key=lambda one: (-shape.raw[one],", "        return min(some, key=lambda one: (shape.raw[one],"),
        ("applications_in_two_domains", "21: tags of the application hold for all its asks", "        if wish.outer:\n            groups = (*groups,", "        if False:\n            groups = (*groups,"),
        ("groups_stay_in_old_domains", "21: a node that changes its domain takes its members along", "                if found is not None and found[1] != where:", "                if False:"),
    ),
    *mutants_of(
        "index.domains",
        ("domains_least_used_first", "21: of domains with equal room the one that is used most is taken", "        rank = (count, -domain.used, domain.path) if count else None", "        rank = (count, domain.used, domain.path) if count else None"),
        ("domains_just_too_small", "21: a domain with room for exactly so many is taken", "        start: Rank = (count,)\n", "        start: Rank = (count + 1,)\n"),
        ("copies_of_refused_nodes", "21: only nodes that the RM accepts are room", "        return not (demand.node_specific and demand.avoids(entry.id))", "        return True"),
    ),
    *mutants_of(
        "cycle.preempt_groups",
        ("groups_preempt_everywhere", "21: a group preempts in one domain", "        self.entries = [entry for entry in domain.nodes if may_be_kept(entry.node)]", "        self.entries = [entry for entry in index.nodes._entries.values() if may_be_kept(entry.node)]"),
        ("groups_of_other_members_start", "21: a group with other members is planned anew", "    if isinstance(start, Start) and start.begins and start.asks != todo:", "    if False:"),
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
        ("packed_into_empty_nodes", "21: small work goes to nodes in use before empty ones", "        return (empty, tuple(unused),", "        return (not empty, tuple(unused),"),
        ("packed_into_whole_racks", "21: of nodes alike those of racks with few empty nodes come first", "self.whole.get(domain, 0), domain.path)", "-self.whole.get(domain, 0), domain.path)"),
        ("packed_into_unused_racks", "21: small work goes to racks in use", "            unused.append(one not in self.used)", "            unused.append(one in self.used)"),
    ),
)  # fmt: skip
