"""Rules of memory, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import Mutant, mutants_of

MEMORY: Final = (
    Mutant("memory_of_groups_before_users", "23: a weight by name counts before those of groups", "remuda_proto.fair", "found = self.users.get(user)", "found = None"),
    Mutant("memory_of_the_smallest_group", "23: of groups the largest weight counts", "remuda_proto.fair", "found = max((self.groups[one]", "found = min((self.groups[one]"),
    *mutants_of(
        "rules.properties",
        ("memory_of_user_weights_above", "23: weights of users are inherited", "    for properties in path_to_root:\n        text", "    for properties in list(path_to_root)[:1]:\n        text"),
    ),
    *mutants_of(
        "rules.decay",
        ("memory_does_not_decay", "23: a moment one half-life ago weighs half", ">> (bits - BITS) for power in powers]", ">> bits << BITS for power in powers]"),
        ("memory_of_other_landmarks", "23: the mean does not depend on when it is computed", "(at_ms - epoch * self.epoch_ms) * STEPS", "(at_ms - (epoch // 2) * self.epoch_ms) * STEPS"),
    ),
    *mutants_of(
        "state.accounts",
        ("memory_grows_by_the_end", "23: what was used counts while it was used", "                        past[name] += amount * gained\n", "                        past[name] += amount * self.clock\n"),
        ("memory_shifts_too_little", "23: the mean does not depend on when it is computed", "bits = EPOCH * (epoch - self.epoch)", "bits = EPOCH"),
        ("memory_starts_anew", "23: another half-life keeps the mean", "        if known and self.decay is not None:\n", "        if False:\n"),
        ("memory_is_kept_without_half_life", "23: without a half-life accounts are forgotten", "        was, self.past = self.past, {}\n", "        was = self.past\n"),
        ("memory_ends_with_its_members", "23: accounts outlive the queue and the registration", "            account.used = sums()\n            self.rest(account, now_ms)\n", "            self.forget(account.key)\n"),
        ("memory_of_the_idle_is_kept", "23: an account without use is forgotten after 1,024 half-lives", "now_ms - self.at_ms >= KEPT_EPOCHS * self.decay.epoch_ms", "False"),
    ),
    *mutants_of(
        "evolve.accounts",
        ("memory_of_moves", "23: moving an application leaves the past with the old queue", "    for account in queue.accounts:\n        account.settle(state.now_ms)\n", "    for account in queue.accounts[1:]:\n        account.settle(state.now_ms)\n"),
        ("memory_without_placeholders", "23: placeholders count as use", "        own.book(application.allocated_placeholder, 1)\n", ""),
        ("memory_only_of_queues", "23: each user in a leaf with `fair-users` has an account", "    if policy == FAIR_USERS:\n", "    if False:\n"),
    ),
    *mutants_of(
        "evolve.booking",
        ("memory_settles_too_late", "23: the mean depends on what was used and when", "        if account.at_ms != now_ms:\n            account.settle(now_ms)\n", "        if account.at_ms != now_ms and not any(account.used.values()):\n            account.settle(now_ms)\n"),
    ),
    *mutants_of(
        "evolve.rms",
        ("memory_of_the_registered", "23: after a registration with `report` the past stays", "    state.accounts.leave_all(state.now_ms)\n", "    state.accounts = type(state.accounts)()\n"),
    ),
    *mutants_of(
        "index.moments",
        ("memory_looks_at_the_present", "23: shares are measured `fair.ahead` later", "at_ms = (step + 1) * self.step_ms + self.ahead_ms", "at_ms = (step + 1) * self.step_ms"),
        ("memory_looks_once", "23: a pass measures all shares at one moment", "                    self.stale.append((order, members))\n", "                    pass\n"),
        ("memory_of_any_resource", "23: the highest effective use counts", "                    if share > highest:\n                        highest = share\n", "                    highest = share\n"),
        ("memory_of_what_is_used_now", "23: effective use is use in the past", " and len(used) == len(past):\n", ":\n"),
        ("memory_of_other_names", "23: effective use is use in the past", "            if not used.get(name) and due.get(name):\n", "            if False:\n"),
        ("memory_of_other_places", "23: the share with the least effective use comes first", "        share, place = share * PLACE, place - 1\n", "        share, place = share * PLACE, place\n"),
    ),
    *mutants_of(
        "index.partition",
        ("memory_is_not_settled", "23: a pass measures all shares at one moment", "        self.moments.begin_pass(now_ms)\n        self.is_unsettled = True\n", "        self.moments.begin_pass(now_ms)\n"),
    ),
    *mutants_of(
        "index.ordered",
        ("memory_of_users_looks_once", "23: a pass measures all shares at one moment", "            if is_current and entry[-2] > self._outdated:\n", "            if is_current:\n"),
        ("memory_takes_the_place_of_others", "9: the first in rank comes next", "                elif heap and heap[0] is old:", "                elif heap:"),
        ("turns_end_at_the_end_of_the_line", "9: the first in rank comes next", "                if not line or line[-1] < entry:\n", "                if True:\n"),
    ),
    *mutants_of(
        "index.queues",
        ("memory_without_weights", "23: the share is divided by `fair.weight`", "{name: amount * weight for name, amount in self.due.items() if amount}", "{name: amount * 1_000 for name, amount in self.due.items() if amount}"),
        ("memory_before_guarantees", "23: queues that use less than is guaranteed come first", "        beyond = self.guaranteed_first and not (queue", "        beyond = False and not (queue"),
        ("memory_guarantees_always_first", "23: `plain`: guarantees do not come first", "self.guaranteed_first = queue.memory.guaranteed_first", "self.guaranteed_first = True"),
        ("memory_within_at_the_guarantee", "23: less than is guaranteed", "used.get(name, 0) < least for name, least", "used.get(name, 0) <= least for name, least"),
        ("memory_before_priority", "23: higher priority comes first", "                return (-queue.priority, beyond, place, rest, -self.weight, queue.path)\n", "                return (beyond, place, rest, -queue.priority, -self.weight, queue.path)\n"),
    ),
    *mutants_of(
        "index.leaves",
        ("memory_of_users_by_application", "23: of a user's applications the oldest comes first", "        return -application.priority, application.seq\n", "        return -application.priority, -application.seq\n"),
        ("memory_of_users_is_late", "23: users are ranked by their share", "            users.ranking.touch(member)\n", ""),
        ("memory_without_user_weights", "23: the share of a user is divided by the weight", "self.user_weights.of(application.user, application.groups), WEIGHT_ONE", "WEIGHT_ONE, WEIGHT_ONE"),
        ("memory_of_fair_leaves", "23: applications of a `fair` leaf are ranked by effective use", "        if self.fair and self.moment is not None:\n", "        if False:\n"),
    ),
    *mutants_of(
        "index.build",
        ("memory_of_users_that_moved", "23: users are ranked by their share", "        if leaf.by_user:  # the user has other applications there\n", "        if False:\n"),
    ),
    *mutants_of(
        "index.patience",
        ("patience_never_ends", "23: a late ask goes before the ask that is next", "self._heap[0][0] <= now_ms", "self._heap[0][0] < 0"),
        ("patience_ends_too_early", "23: an ask is late when it has waited as long as `fair.patience`", "        due_ms = ask.at_ms + patience_ms\n", "        due_ms = ask.at_ms + patience_ms // 2\n"),
        ("patience_passes_priorities", "23: the late ask has no lower priority", "        if order.by_priority and _priority(ask, below) < _priority(first, below_others):\n            return False\n", ""),
        ("patience_passes_guarantees", "23: the other ask is not the one of a child within its guarantee", "        return not order.is_beyond(below) or order.is_beyond(below_others)", "        return True"),
        ("patience_without_memory", "23: the queue in which the paths meet has a half-life", "        if order.moment is None:\n            return False\n", ""),
        ("patience_without_quotas", "23: the late ask fits its quotas", "        return headroom is None or covers(demand.negated, headroom)", "        return True"),
    ),
)  # fmt: skip
