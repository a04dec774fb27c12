"""Rules of nodes that leave, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

LEAVING: Final = (
    *mutants_of(
        "rules.leaving",
        (
            "leaving_without_bounds",
            "24: an ask without a bound does not start on a node that leaves",
            "    return bound_ms if bound_ms > 0 else ALWAYS_MS",
            "    return max(bound_ms, 0)",
        ),
        (
            "leaving_for_bound_asks",
            "24: asks that are bound to the node start there",
            "    if required_node(tags):\n",
            "    if False:\n",
        ),
        (
            "leaving_to_the_millisecond",
            "24: whole minutes count",
            "    return (steps >> less << less) * STEP_MS",
            "    return max(0, _ends_by(leaves_ms) - now_ms)",
        ),
        (
            "leaving_without_steps",
            "24: of many minutes six binary digits count",
            "    less = max(steps.bit_length() - DIGITS, 0)",
            "    less = 0",
        ),
        (
            "leaving_before_the_answer",
            "24: the time of a question to the RM does not count",
            "    return leaves_ms - ANSWER_WITHIN_MS",
            "    return leaves_ms",
        ),
        (
            "leaving_unreadable",
            "24: an attribute that cannot be read is refused",
            '{EXPECTED_TIME}" if text and not instant(text) else None',
            '{EXPECTED_TIME}" if text and not text else None',
        ),
    ),
    *mutants_of(
        "index.nodes",
        (
            "leaving_used_up",
            "24: what starts on a node takes nothing of the time that it stays",
            "return self._with_lasting(rest, available[self.lasting]) if self.audiences else rest",
            "return rest",
        ),
        (
            "leaving_when_promised",
            "24: with backfill a node is reserved if the ask could end there from the promised time on",
            "return self.falls is None or covers(self.falls.amounts(node, at_ms), demand.need[self.lasting])",
            "return True",
        ),
    ),
    *mutants_of(
        "index.partition",
        (
            "leaving_reserved_for_ever",
            "24: a reservation ends when its ask could no longer end on the node",
            "            self.reserved_nodes.node_changed(node)\n\n    @property",
            "            pass\n\n    @property",
        ),
    ),
    *mutants_of(
        "index.lasting",
        (
            "leaving_as_at_first",
            "24: the time that is left falls as time passes",
            "        while heap and heap[0][0] <= now_ms:",
            "        while False:",
        ),
    ),
    *mutants_of(
        "state.application",
        (
            "leaving_at_the_later_time",
            "24: the earlier time of attribute and operator counts",
            "        return min(by_rm, drained.from_ms) if",
            "        return drained.from_ms if",
        ),
        (
            "leaving_undone_by_others",
            "24: RM, operator and time drain a node each for themselves",
            "        return self.drained_by_rm or self.left or self.drained_by_operator",
            "        return self.drained_by_rm or self.drained_by_operator",
        ),
    ),
    *mutants_of(
        "decide.node",
        (
            "leaving_never",
            "24: at that time the node drains",
            "    if node.leaves_ms <= now_ms:\n",
            "    if False:\n",
        ),
        (
            "leaving_never_as_planned",
            "24: at the time that an operator has set the node drains",
            "    if planned is not None and 0 < planned.from_ms <= now_ms:\n",
            "    if False:\n",
        ),
        (
            "leaving_for_good",
            "24: a later time puts the node back into service",
            "    if node.left and node.leaving_ms > now_ms:\n",
            "    if False:\n",
        ),
    ),
    *mutants_of(
        "decide.predicate",
        (
            "leaving_before_an_answer",
            "24: a question is withdrawn if the node leaves before the ask would end",
            "    if not still_ends_before(",
            "    if False and not still_ends_before(",
        ),
    ),
    *mutants_of(
        "decide.administer",
        (
            "leaving_in_the_past",
            "24: an operator names a time ahead",
            "    elif action.from_ms and not act.state.now_ms < action.from_ms < NEVER_MS:",
            "    elif action.from_ms and not 0 < action.from_ms < NEVER_MS:",
        ),
        (
            "leaving_at_one_time_only",
            "24: another drain sets another time",
            "    elif node.drained is not None and node.drained_by_operator:",
            "    elif node.drained is not None:",
        ),
    ),
    *mutants_of(
        "cycle.preempt",
        (
            "leaving_preempted",
            "24: nothing is preempted for an ask that could not end there",
            " or node_id in pending.refused or not stays(node):",
            " or node_id in pending.refused:",
        ),
        (
            "leaving_preempted_late",
            "24: the victims may take five minutes to leave",
            "at_ms = pending.ask, search.now_ms + RELEASE_OVERDUE_MS",
            "at_ms = pending.ask, search.now_ms",
        ),
    ),
    *mutants_of(
        "cycle.replace",
        (
            "leaving_placeholders",
            "24: an ask that replaces a placeholder ends before its node leaves",
            "takes = node.takes(bound_to) and ends_before(",
            "takes = node.takes(bound_to) or ends_before(",
        ),
    ),
    *mutants_of(
        "explain.nodes",
        (
            "leaving_untold",
            "24: asks that wait for such a node have the constraint `leaving`",
            "    if not partition.leaving:\n        return nodes, []\n",
            "    if True:\n        return nodes, []\n",
        ),
    ),
    *mutants_of(
        "index.preemption",
        (
            "leaving_alike",
            "24: asks of different bounds are not alike to preemption",
            "    return {**amounts, MAX_RUNTIME: lasts_ms} if lasts_ms else amounts",
            "    return amounts",
        ),
    ),
)
