"""Answers of an RM to questions about predicates, drawn at random."""

from __future__ import annotations

from random import Random

from remuda_core import commands
from remuda_core.state import Partition

HOLDS_MS = (0, 0, 1, 1_000, 5_000, 86_400_000 * 2)


def answer(random: Random, partition: Partition) -> commands.Command:
    """To one of the open questions, or to one that is not open."""
    open_ones = [
        *partition.questions,
        *partition.replacements_asked,
        *(p.question for p in partition.preemptions.values()),
    ]
    question = random.choice(open_ones or [random.randint(0, 99)])
    if partition.class_questions and random.random() < 0.8:
        return verdicts(random, partition)
    return commands.AnswerPredicate(partition.name, question, random.random() < 0.6, "no")


def verdicts(random: Random, partition: Partition) -> commands.AnswerPredicates:
    """The answer to one of the open questions about classes. Some nodes have no verdict, and some are unknown."""
    number = random.choice(list(partition.class_questions))
    likely = random.choice((0.0, 0.3, 0.7, 1.0))
    nodes = [node_id for node_id in partition.class_questions[number].asked if random.random() < 0.95]
    given = tuple(
        commands.Verdict(node_id, "" if random.random() < likely else "no", random.choice(HOLDS_MS))
        for node_id in (*nodes, "nowhere")
    )
    return commands.AnswerPredicates(partition.name, number, given)
