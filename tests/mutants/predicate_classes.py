"""Rules of predicates in batches, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

PREDICATE_CLASSES: Final = (
    *mutants_of(
        "evolve.predicate_classes",
        ("batch_verdicts_outlive_changes", "10: a verdict ends when the RM changes the node", "        _forget(partition, found, node_id)\n        found.asked.pop(node_id, None)\n", "        found.asked.pop(node_id, None)\n"),
        ("batch_late_verdicts_count", "10: verdicts about nodes that have changed since do not count", "        found.asked.pop(node_id, None)\n", ""),
        ("batch_one_class_less_kept", "10: as many classes as are kept keep their verdicts", "if len(partition.idle_classes) > PREDICATE_CLASSES_KEPT:", "if len(partition.idle_classes) >= PREDICATE_CLASSES_KEPT:"),
        ("batch_verdicts_without_end", "10: verdicts are bounded", "    if partition.verdicts <= most:\n        return forgetful", "    if True:\n        return forgetful"),
    ),
    *mutants_of(
        "index.nodes",
        ("batch_questions_begin_anew", "10: a question goes on behind the last one", "merge(*(group.behind(after) for group in groups))", "merge(*(group.behind(\"\") for group in groups))"),
    ),
    *mutants_of(
        "index.nodes",
        ("batch_better_nodes_come_late", "10: the accepted node with the best score is chosen", "if known is None or group.score < known:", "if known is None:"),
    ),
    *mutants_of(
        "cycle.schedule",
        ("batch_verdicts_outlive_their_time", "10: a verdict that holds for a time ends with it", "if known is not None and not known.accepts(node.id, now_ms):", "if False:"),
    ),
    *mutants_of(
        "cycle.place",
        ("batch_questions_without_end", "10: so many questions about classes are open at most", "    if partition.questions_paused:", "    if False:"),
    ),
    *mutants_of(
        "decide.predicate",
        ("batch_no_verdict_accepts", "10: a node without a verdict is refused", "Verdict(\"\", shortened(otherwise, MESSAGE_BYTES), REFUSALS_LAST_MS)", "Verdict(\"\")"),
        ("batch_verdicts_hold_for_ever", "10: a verdict may hold for a time", "verdict.holds_ms and until_ms(verdict.holds_ms, now_ms)", "0"),
    ),
    *mutants_of(
        "index.reservations",
        ("batch_reserved_while_asked", "10: no node is reserved before the RM has answered", "if found is not None and (found.question or demand in self._demands.unasked):", "if False:"),
    ),
    *mutants_of(
        "rules.predicate_class",
        ("batch_tag_ignored", "10: the RM names classes by a tag", "    if named:\n        return named\n", ""),
        ("batch_tags_ignored", "10: asks with other tags are another class", "sorted(tags.items())", "()"),
    ),
)  # fmt: skip
